"""Other libraries behind one interface: encrypt a vector, add vectors, decrypt.

Values are integers of 16 bits, ten vectors are added, so that a sum needs 20. "Batched" puts as many values
into a ciphertext as it takes, else there is one in each. The libraries are optional: one that is not
installed raises ``ImportError`` where its scheme is made.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

VALUE_BITS, SUM_BITS, TERMS = 16, 20, 10
MODULUS_BITS = 2048
"""Of Paillier keys, as in the paper."""

Values = NDArray[np.int64]


class Scheme(Protocol):
    """What is measured. A vector of ciphertexts is a list.

    Attributes
    ----------
    per_ciphertext : int
        Values in a ciphertext.
    """

    per_ciphertext: int

    def encrypt(self, values: Values, rank: int) -> list[Any]:
        """Ciphertexts of the vector of party ``rank``."""

    def add(self, vectors: Sequence[list[Any]]) -> list[Any]:
        """Ciphertexts of the sum of vectors."""

    def decrypt(self, ciphertexts: list[Any], count: int) -> NDArray[Any]:
        """The ``count`` values of a vector."""

    def size(self, ciphertext: Any) -> int:
        """Bytes of a ciphertext on the wire."""


def _packed(values: Values, lanes: int) -> list[int]:
    """Integers that hold ``lanes`` values each, ``SUM_BITS`` apart."""
    rows = np.zeros((-(-len(values) // lanes), lanes), dtype="<i8")
    rows.reshape(-1)[: len(values)] = values
    bits = np.unpackbits(rows.view(np.uint8).reshape(*rows.shape, 8), axis=2, bitorder="little")
    octets = np.packbits(bits[:, :, :SUM_BITS].reshape(len(rows), -1), axis=1, bitorder="little")
    return [int.from_bytes(row.tobytes(), "little") for row in octets]


def _unpacked(integers: Sequence[int], lanes: int, count: int) -> NDArray[Any]:
    mask = (1 << SUM_BITS) - 1
    values = [number >> SUM_BITS * lane & mask for number in integers for lane in range(lanes)]
    return np.array(values[:count], dtype=np.float64)


class PythonPaillier:
    """The package phe (python-paillier), with gmpy2 where that is installed."""

    def __init__(self, batched: bool) -> None:
        import phe

        self._public, self._private = phe.generate_paillier_keypair(n_length=MODULUS_BITS)
        # phe takes integers up to a third of the modulus.
        self.per_ciphertext = (MODULUS_BITS - 3) // SUM_BITS if batched else 1

    def encrypt(self, values: Values, _rank: int) -> list[Any]:
        """Ciphertexts with fresh randomness."""
        return [self._public.encrypt(number) for number in _packed(values, self.per_ciphertext)]

    def add(self, vectors: Sequence[list[Any]]) -> list[Any]:
        """Products of ciphertexts."""
        total, *others = vectors
        for vector in others:
            total = [one + other for one, other in zip(total, vector, strict=True)]
        return total

    def decrypt(self, ciphertexts: list[Any], count: int) -> NDArray[Any]:
        """With the private key."""
        sums = [self._private.decrypt(one) for one in ciphertexts]
        return _unpacked(sums, self.per_ciphertext, count)

    def size(self, _ciphertext: Any) -> int:
        """A number modulo n²."""
        return 2 * MODULUS_BITS // 8


class RustPaillier:
    """The package pypaillier, imported as paillier."""

    def __init__(self, batched: bool) -> None:
        import paillier

        self._paillier = paillier
        self._public, self._private = paillier.generate_keypair(MODULUS_BITS)
        self.per_ciphertext = self._public.plaintext_bound_bits // SUM_BITS if batched else 1

    def encrypt(self, values: Values, _rank: int) -> list[Any]:
        """One call for the vector."""
        packed = _packed(values, self.per_ciphertext)
        return list(self._paillier.encrypt_integers(self._public, packed))

    def add(self, vectors: Sequence[list[Any]]) -> list[Any]:
        """One call for the vector."""
        blobs = [blob for vector in vectors for blob in vector]
        length = len(vectors[0])
        blocks = [list(range(place, len(blobs), length)) for place in range(length)]
        return list(self._paillier.add_blocks(self._public, blobs, blocks))

    def decrypt(self, ciphertexts: list[Any], count: int) -> NDArray[Any]:
        """One call for the vector."""
        sums = [int(text) for text in self._paillier.decrypt_many(self._private, ciphertexts)]
        return _unpacked(sums, self.per_ciphertext, count)

    def size(self, ciphertext: Any) -> int:
        """As serialised."""
        return len(ciphertext)


class Heu:
    """The package sf-heu of SecretFlow, imported as heu: its Paillier with fixed-base tables."""

    def __init__(self) -> None:
        from heu import numpy, phe

        schema = phe.SchemaType.ZPaillier
        self._encoder, self._decoder = phe.BigintEncoder(schema), phe.BigintDecoder()
        self._kit = numpy.setup(schema, MODULUS_BITS)
        # Half of the plaintexts stand for negative numbers.
        self.per_ciphertext = (MODULUS_BITS - 2) // SUM_BITS

    def encrypt(self, values: Values, _rank: int) -> list[Any]:
        """One call for the vector, which is one object."""
        packed = self._kit.array(_packed(values, self.per_ciphertext), self._encoder)
        return [self._kit.encryptor().encrypt(packed)]

    def add(self, vectors: Sequence[list[Any]]) -> list[Any]:
        """One call for each two vectors."""
        total = vectors[0][0]
        for vector in vectors[1:]:
            total = self._kit.evaluator().add(total, vector[0])
        return [total]

    def decrypt(self, ciphertexts: list[Any], count: int) -> NDArray[Any]:
        """One call for the vector."""
        sums = self._kit.decryptor().decrypt(ciphertexts[0]).to_numpy(self._decoder)
        return _unpacked([int(one) for one in sums.reshape(-1)], self.per_ciphertext, count)

    def size(self, ciphertext: Any) -> int:
        """As serialised."""
        return len(ciphertext.serialize())


class FateUtils:
    """The package fate-utils of FATE, which packs values itself."""

    per_ciphertext = (MODULUS_BITS - 2) // SUM_BITS

    def __init__(self) -> None:
        from fate_utils.paillier import keygen

        self._secret, self._public, self._coder = keygen(MODULUS_BITS)

    def encrypt(self, values: Values, _rank: int) -> list[Any]:
        """One call for the vector, which is one object."""
        packed = self._coder.pack_floats(values.astype(np.float64), SUM_BITS, self.per_ciphertext, 0)
        return [self._public.encrypt_encoded(packed, True)]

    def add(self, vectors: Sequence[list[Any]]) -> list[Any]:
        """One call for each two vectors."""
        total = vectors[0][0]
        for vector in vectors[1:]:
            total = total.add(self._public, vector[0])
        return [total]

    def decrypt(self, ciphertexts: list[Any], count: int) -> NDArray[Any]:
        """One call for the vector."""
        packed = self._secret.decrypt_to_encoded(ciphertexts[0])
        lanes = self.per_ciphertext
        return np.asarray(self._coder.unpack_floats(packed, SUM_BITS, lanes, 0, count))

    def size(self, ciphertext: Any) -> int:
        """A number modulo n², for each of the vector's."""
        return 2 * MODULUS_BITS // 8 * len(ciphertext.tolist())


class _TenSeal:
    """What CKKS and BFV of TenSEAL share."""

    per_ciphertext: int

    def __init__(self, context: Any, per_ciphertext: int) -> None:
        self._context = context
        self.per_ciphertext = per_ciphertext

    def _pieces(self, values: NDArray[Any]) -> list[list[Any]]:
        step = self.per_ciphertext
        return [values[first : first + step].tolist() for first in range(0, len(values), step)]

    def add(self, vectors: Sequence[list[Any]]) -> list[Any]:
        """A new vector, then in place: copies go through bytes and cost more than anything else."""
        total = [one.add(other) for one, other in zip(vectors[0], vectors[1], strict=True)]
        for vector in vectors[2:]:
            for one, other in zip(total, vector, strict=True):
                one.add_(other)
        return total

    def size(self, ciphertext: Any) -> int:
        """As serialised, which compresses."""
        return len(ciphertext.serialize())


class Ckks(_TenSeal):
    """CKKS of TenSEAL, one thread; a value v is encrypted as v / 2^15 - 1."""

    def __init__(
        self, batched: bool, degree: int = 8192, moduli: Sequence[int] = (), scale: int = 40
    ) -> None:
        import tenseal

        self._tenseal = tenseal
        context = tenseal.context(
            tenseal.SCHEME_TYPE.CKKS, degree, coeff_mod_bit_sizes=list(moduli), n_threads=1
        )
        context.global_scale = 2**scale
        super().__init__(context, degree // 2 if batched else 1)

    def encrypt(self, values: Values, _rank: int) -> list[Any]:
        """Reals, a vector object for each ciphertext."""
        reals = values / 2 ** (VALUE_BITS - 1) - 1
        return [self._tenseal.ckks_vector(self._context, piece) for piece in self._pieces(reals)]

    def decrypt(self, ciphertexts: list[Any], count: int) -> NDArray[Any]:
        """The sums of the integers, with the error of the scheme."""
        reals = np.concatenate([one.decrypt() for one in ciphertexts])[:count]
        return np.asarray((reals + TERMS) * 2 ** (VALUE_BITS - 1))


class Bfv(_TenSeal):
    """BFV of TenSEAL, one thread."""

    def __init__(self, batched: bool, degree: int = 4096, modulus: int = 1032193) -> None:
        import tenseal

        self._tenseal = tenseal
        self._modulus = modulus
        context = tenseal.context(tenseal.SCHEME_TYPE.BFV, degree, modulus, n_threads=1)
        super().__init__(context, degree if batched else 1)

    def encrypt(self, values: Values, _rank: int) -> list[Any]:
        """A vector object for each ciphertext."""
        return [self._tenseal.bfv_vector(self._context, piece) for piece in self._pieces(values)]

    def decrypt(self, ciphertexts: list[Any], count: int) -> NDArray[Any]:
        """The library gives residues with a sign."""
        sums = np.concatenate([one.decrypt() for one in ciphertexts])[:count]
        return np.asarray(sums % self._modulus, dtype=np.float64)


class OpenFhe:
    """BFV of OpenFHE, with the least parameters that it finds safe for additions.

    Its wheels hold a module for one version of Python each, the one of an Ubuntu release; elsewhere it does
    not load.
    """

    def __init__(self, batched: bool, modulus: int = 1032193) -> None:
        import openfhe

        self._library = openfhe
        self._modulus = modulus
        parameters = openfhe.CCParamsBFVRNS()
        parameters.SetPlaintextModulus(modulus)
        parameters.SetMultiplicativeDepth(0)
        self._context = openfhe.GenCryptoContext(parameters)
        self._context.Enable(openfhe.PKESchemeFeature.PKE)
        self._context.Enable(openfhe.PKESchemeFeature.LEVELEDSHE)
        self._keys = self._context.KeyGen()
        self.per_ciphertext = int(self._context.GetRingDimension()) if batched else 1

    def encrypt(self, values: Values, _rank: int) -> list[Any]:
        """Packed plaintexts with residues that have a sign."""
        centred = np.where(values > self._modulus // 2, values - self._modulus, values)
        step = self.per_ciphertext
        pieces = [centred[first : first + step].tolist() for first in range(0, len(values), step)]
        plain = [self._context.MakePackedPlaintext(piece) for piece in pieces]
        return [self._context.Encrypt(self._keys.publicKey, one) for one in plain]

    def add(self, vectors: Sequence[list[Any]]) -> list[Any]:
        """A new vector, then in place."""
        pairs = zip(vectors[0], vectors[1], strict=True)
        total = [self._context.EvalAdd(one, other) for one, other in pairs]
        for vector in vectors[2:]:
            for one, other in zip(total, vector, strict=True):
                self._context.EvalAddInPlace(one, other)
        return total

    def decrypt(self, ciphertexts: list[Any], count: int) -> NDArray[Any]:
        """The library gives residues with a sign, for all slots."""
        plain = [self._context.Decrypt(self._keys.secretKey, one) for one in ciphertexts]
        slots = [one.GetPackedValue()[: self.per_ciphertext] for one in plain]
        return np.asarray(np.concatenate(slots)[:count] % self._modulus)

    def size(self, ciphertext: Any) -> int:
        """As serialised."""
        return len(self._library.Serialize(ciphertext, self._library.BINARY))


class NumpyAes:
    """FLASHE with double masking in numpy, its masks from OpenSSL (package cryptography).

    The whole vector is one ciphertext of 32-bit words, which are not packed to 20 bits and not checked.
    """

    per_ciphertext = 1 << 62

    def __init__(self) -> None:
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

        self._library = (Cipher, algorithms.AES(os.urandom(32)), modes.CTR)
        self._zeros = b""

    def _mask(self, rank: int, count: int) -> NDArray[np.uint32]:
        if len(self._zeros) != 4 * count:
            self._zeros = bytes(4 * count)
        cipher, key, mode = self._library
        stream = cipher(key, mode(rank.to_bytes(12, "big") + bytes(4))).encryptor()
        return np.frombuffer(stream.update(self._zeros), dtype=np.uint32)

    def encrypt(self, values: Values, rank: int) -> list[Any]:
        """A mask of its own and one of the next party."""
        words = values.astype(np.uint32)
        words += self._mask(rank, len(words))
        words -= self._mask(rank + 1, len(words))
        return [words]

    def add(self, vectors: Sequence[list[Any]]) -> list[Any]:
        """Words mod 2^32."""
        total = vectors[0][0].copy()
        for vector in vectors[1:]:
            total += vector[0]
        return [total]

    def decrypt(self, ciphertexts: list[Any], count: int) -> NDArray[Any]:
        """The first mask and the last; the others have cancelled."""
        words: NDArray[np.uint32] = ciphertexts[0] - self._mask(0, count)
        words += self._mask(TERMS, count)
        return words

    def size(self, ciphertext: Any) -> int:
        """Four bytes a word."""
        return int(ciphertext.nbytes)
