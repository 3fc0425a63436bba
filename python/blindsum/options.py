"""The options of jobs, protocols, encodings, server steps and stops.

Written by tools/options.py from the declarations in Rust: change them there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Required, TypedDict

from blindsum.tables import UNSET, Encoding, Metric, Parameters, Privacy, Protocol, ServerStep, Stop, Tensor

if TYPE_CHECKING:
    from blindsum.layouts import ModelLayout

__all__ = [
    "DiscreteGaussian",
    "FedAdagrad",
    "FedAdam",
    "FedAvg",
    "FedAvgM",
    "FedYogi",
    "Fixed64",
    "Flashe",
    "Fssa",
    "Integers",
    "Mpc3",
    "NoPrivacy",
    "NoStop",
    "PaillierAllReduce",
    "PaillierBroadcast",
    "PaillierRing",
    "Plain",
    "Plateau",
    "Pss",
    "PssMalicious",
    "Quantised",
    "SecAgg",
    "SecAggPlus",
    "Skellam",
]


@dataclass(frozen=True, kw_only=True)
class Plain(Protocol):
    """No protection: the coordinator sees every update. The baseline."""

    name: ClassVar[str] = "plain"


@dataclass(frozen=True, kw_only=True)
class SecAgg(Protocol):
    """Double masking on the complete graph (Bonawitz et al. 2017).

    Attributes
    ----------
    threshold : int
        Number of shares that reconstruct a party's secret; 0 chooses a safe number. By default ``0``.
    """

    name: ClassVar[str] = "secagg"
    threshold: int = UNSET


@dataclass(frozen=True, kw_only=True)
class SecAggPlus(Protocol):
    """Double masking on a random sparse graph (Bell et al. 2020).

    Attributes
    ----------
    neighbours : int
        Neighbours of a party in the graph; 0 chooses the smallest safe number. By default ``0``.
    threshold : int
        Number of shares that reconstruct a party's secret; 0 chooses a safe number. By default ``0``.
    """

    name: ClassVar[str] = "secagg+"
    neighbours: int = UNSET
    threshold: int = UNSET


@dataclass(frozen=True, kw_only=True)
class Fssa(Protocol):
    """Ramp sharing, words in the coefficients (FSSA).

    Attributes
    ----------
    threshold : int
        Number of sums of shares that reconstruct the sum; 0 chooses. By default ``0``.
    packing : int
        Number of words in one polynomial; 0 chooses. By default ``0``.
    """

    name: ClassVar[str] = "fssa"
    threshold: int = UNSET
    packing: int = UNSET


@dataclass(frozen=True, kw_only=True)
class Pss(Protocol):
    """Ramp sharing, words in the values (PSS).

    Attributes
    ----------
    threshold : int
        Number of sums of shares that reconstruct the sum; 0 chooses. By default ``0``.
    packing : int
        Number of words in one polynomial; 0 chooses. By default ``0``.
    """

    name: ClassVar[str] = "pss"
    threshold: int = UNSET
    packing: int = UNSET


@dataclass(frozen=True, kw_only=True)
class PssMalicious(Protocol):
    """Packed sharing with a proof that every vector is in bounds: withstands corrupt parties (PSS).

    Attributes
    ----------
    packing : int
        Number of words in one polynomial; 0 chooses. By default ``0``.
    bound : str
        The bounded quantity of the proof. ``entries``: Every coordinate, by the bits of its word; and the L2
        norm of the vector if there is a ``max_norm``; ``l2``: Only the L2 norm, for less upload from about
        200 coordinates on; ``max_norm`` must be set, and be no larger than ``clip``. By default
        ``"entries"``.
    """

    name: ClassVar[str] = "pss-malicious"
    packing: int = UNSET
    bound: str = UNSET


@dataclass(frozen=True, kw_only=True)
class Flashe(Protocol):
    """Additively symmetric encryption: the coordinator learns nothing (FLASHE).

    Attributes
    ----------
    masking : str
        Number of masks of a word. ``cheaper``: The cheaper one of the two at the job's expected dropouts;
        ``double``: Two, which cancel between neighbours; ``single``: One. By default ``"cheaper"``.
    key_rounds : int
        Rounds that a key of the job serves before another one is made; 0 means the whole job. By default
        ``0``.
    density : float
        Part of the coordinates of each tensor that a party sends; 1 sends all. Below 1 rounds are sparse: a
        party sends its largest coordinates and adds the others to its next update. By default ``1.0``.
    density_start : float
        Density of the first sum, from which it falls to ``density`` in steps. By default ``1.0``.
    density_steps : int
        Steps in which the density falls from ``density_start``; 0 begins with ``density``. By default ``0``.
    density_rounds : int
        Sums of a step. By default ``1``.
    min_contributors : int
        Parties that must have sent a coordinate of a sparse round for its sum to be opened; 0 means 2. By
        default ``0``.
    divisor : str
        Divisor of the sum of a coordinate in a sparse round. ``parties``: All parties whose updates are in
        the round, so that late values count once; ``senders``: The parties that sent the coordinate. By
        default ``"parties"``.
    """

    name: ClassVar[str] = "flashe"
    masking: str = UNSET
    key_rounds: int = UNSET
    density: float = UNSET
    density_start: float = UNSET
    density_steps: int = UNSET
    density_rounds: int = UNSET
    min_contributors: int = UNSET
    divisor: str = UNSET


@dataclass(frozen=True, kw_only=True)
class Mpc3(Protocol):
    """Three servers of three organisations: any two learn every vector, one alone nothing but the result.

    Attributes
    ----------
    rule : str
        The rule that the servers apply to the vectors. ``fedavg``: The mean, with the weights of the encoding
        (McMahan et al. 2017); ``weighted``: The mean, where each party gives a weight: ``max_weight`` must be
        above 1; ``clipped``: The mean of the vectors, of which longer ones are shortened to ``norm``;
        ``fltrust``: A vector counts the more, the closer its direction is to that of the party ``root`` (Cao
        et al. 2021); ``krum``: The vector that is nearest to its nearest others (Blanchard et al. 2017);
        ``multi-krum``: The mean of all but ``bad`` vectors, those that are nearest to their nearest others;
        ``median``: The median of each coordinate (Yin et al. 2018); ``trimmed-mean``: The mean of each
        coordinate without its ``bad`` smallest and largest values (Yin et al. 2018); ``cosine``: Vectors that
        point where another one points count less (after Fung et al. 2020). By default ``"fedavg"``.
    norm : float
        ``clipped``: the L2 norm that longer vectors are shortened to; 0 is the largest that the encoding
        allows. By default ``0.0``.
    bad : int
        ``krum``, ``multi-krum``, ``trimmed-mean``: the number of vectors that may be bad; 0 stands for
        ``corrupt`` of ``parties``. By default ``0``.
    root : str
        ``fltrust``: the name of the party whose vector the others are compared with. By default ``"root"``.
    trust : str
        ``fltrust``: whether the sum of all trust is shown. ``shown``: Recipients of the result learn the sum
        of all trust; ``hidden``: The servers divide by it, for 23 more rounds. By default ``"shown"``.
    noise : float
        ``fedavg``, ``clipped``: Gaussian noise in the sum of the vectors, as its standard deviation for
        somebody who works with one server, in multiples of the longest vector. No guarantee is computed:
        ``privacy`` does that. By default ``0.0``.
    result : str
        The recipients of the result. ``both``: The three servers and the parties; ``parties``: Only the
        parties: no server knows the result, nor the next model; ``servers``: Only the three servers: parties
        learn which vectors count, and there is no model. By default ``"both"``.
    truncation : str
        Rounding of numbers by the servers. ``probabilistic``: Up or down, at random; ``exact``: Down, for
        about 7 rounds more each time. By default ``"probabilistic"``.
    """

    name: ClassVar[str] = "mpc3"
    rule: str = UNSET
    norm: float = UNSET
    bad: int = UNSET
    root: str = UNSET
    trust: str = UNSET
    noise: float = UNSET
    result: str = UNSET
    truncation: str = UNSET


@dataclass(frozen=True, kw_only=True)
class PaillierRing(Protocol):
    """Paillier, the sum goes from party to party: the key service learns the sum (MYSTIKO).

    Attributes
    ----------
    key_bits : str
        Bits of the key N. ``2048``: A level of security of 112 bits; ``3072``: A level of security of 128
        bits. By default ``"2048"``.
    exponents : str
        Length of the random exponents of encryption. ``full``: Half as long as the key: as hard to break as
        factoring; ``short``: Four times the level of security, which is faster and rests on one assumption
        more. By default ``"full"``.
    key_rounds : int
        Rounds that a key serves before another one is made; 0 means the whole job. By default ``0``.
    key_minutes : float
        Minutes that a key serves before another one is made; 0 means the whole job. By default ``0.0``.
    order : str
        Order of the parties in the ring. ``name``: By their names; ``location``: By their claimed locations,
        then by their names; ``hash``: By a hash of the job and their names: a party that joins or leaves does
        not change the order of the others. By default ``"name"``.
    decryptor : str
        The host of the server that makes keys and opens sums, as in its certificate; empty if this is in the
        coordinator's process. By default ``""``.
    """

    name: ClassVar[str] = "paillier-ring"
    key_bits: str = UNSET
    exponents: str = UNSET
    key_rounds: int = UNSET
    key_minutes: float = UNSET
    order: str = UNSET
    decryptor: str = UNSET


@dataclass(frozen=True, kw_only=True)
class PaillierBroadcast(Protocol):
    """Paillier, each party sends its ciphertexts to all others, and all sums must agree (MYSTIKO).

    Attributes
    ----------
    key_bits : str
        Bits of the key N. ``2048``: A level of security of 112 bits; ``3072``: A level of security of 128
        bits. By default ``"2048"``.
    exponents : str
        Length of the random exponents of encryption. ``full``: Half as long as the key: as hard to break as
        factoring; ``short``: Four times the level of security, which is faster and rests on one assumption
        more. By default ``"full"``.
    key_rounds : int
        Rounds that a key serves before another one is made; 0 means the whole job. By default ``0``.
    key_minutes : float
        Minutes that a key serves before another one is made; 0 means the whole job. By default ``0.0``.
    order : str
        Order of the parties in the ring. ``name``: By their names; ``location``: By their claimed locations,
        then by their names; ``hash``: By a hash of the job and their names: a party that joins or leaves does
        not change the order of the others. By default ``"name"``.
    decryptor : str
        The host of the server that makes keys and opens sums, as in its certificate; empty if this is in the
        coordinator's process. By default ``""``.
    """

    name: ClassVar[str] = "paillier-broadcast"
    key_bits: str = UNSET
    exponents: str = UNSET
    key_rounds: int = UNSET
    key_minutes: float = UNSET
    order: str = UNSET
    decryptor: str = UNSET


@dataclass(frozen=True, kw_only=True)
class PaillierAllReduce(Protocol):
    """Paillier, each part of the vector goes from party to party, all parts in parallel (MYSTIKO).

    Attributes
    ----------
    key_bits : str
        Bits of the key N. ``2048``: A level of security of 112 bits; ``3072``: A level of security of 128
        bits. By default ``"2048"``.
    exponents : str
        Length of the random exponents of encryption. ``full``: Half as long as the key: as hard to break as
        factoring; ``short``: Four times the level of security, which is faster and rests on one assumption
        more. By default ``"full"``.
    key_rounds : int
        Rounds that a key serves before another one is made; 0 means the whole job. By default ``0``.
    key_minutes : float
        Minutes that a key serves before another one is made; 0 means the whole job. By default ``0.0``.
    order : str
        Order of the parties in the ring. ``name``: By their names; ``location``: By their claimed locations,
        then by their names; ``hash``: By a hash of the job and their names: a party that joins or leaves does
        not change the order of the others. By default ``"name"``.
    decryptor : str
        The host of the server that makes keys and opens sums, as in its certificate; empty if this is in the
        coordinator's process. By default ``""``.
    """

    name: ClassVar[str] = "paillier-allreduce"
    key_bits: str = UNSET
    exponents: str = UNSET
    key_rounds: int = UNSET
    key_minutes: float = UNSET
    order: str = UNSET
    decryptor: str = UNSET


@dataclass(frozen=True, kw_only=True)
class Quantised(Encoding):
    """Numbers, clipped and quantised to levels of a number of bits.

    Attributes
    ----------
    bits : int
        Bits of a value. By default ``16``.
    clip : float
        Bound on a coordinate or on the L2 norm, by ``clipping``. By default ``1.0``.
    clipping : str
        The quantity that ``clip`` bounds. ``tensor``: Every coordinate of a tensor; ``l2``: The L2 norm of
        the whole vector; ``aciq``: Every coordinate of a tensor, at most: from the second round on the bound
        follows from the range of the parties' coordinates in earlier rounds, and is never wider than
        ``clip``. Updates that at most double from round to round are not cut off; after a larger jump one
        round is. Recipients of the sum learn how many parties were above fractions of the bound. By default
        ``"tensor"``.
    max_norm : float
        Bound on the L2 norm of an encoded update; 0 means none. By default ``0.0``.
    rounding : str
        Rounding of values to levels. ``stochastic``: To one of 2^bits levels at random, so that the
        expectation is the value: no bias, at every position of 0; ``nearest``: To the nearest of 2^bits - 1
        levels, of which the middle one is 0, so that 0 stays 0. Every other value has an error of up to half
        a level, the same in each round. By default ``"stochastic"``.
    max_weight : int
        Largest weight of an update; 1 gives every party the same weight. By default ``1``.
    tensors : Sequence[Tensor]
        Clipping bounds per tensor; empty applies ``clip`` to all coordinates. By default none.
    """

    name: ClassVar[str] = "quantised"
    bits: int = UNSET
    clip: float = UNSET
    clipping: str = UNSET
    max_norm: float = UNSET
    rounding: str = UNSET
    max_weight: int = UNSET
    tensors: Sequence[Tensor] = UNSET


@dataclass(frozen=True, kw_only=True)
class Fixed64(Encoding):
    """Numbers in 64-bit fixed point with 16 fractional bits.

    Attributes
    ----------
    clip : float
        Bound on a coordinate. By default ``1.0``.
    max_weight : int
        Largest weight of an update; 1 gives every party the same weight. By default ``1``.
    tensors : Sequence[Tensor]
        Clipping bounds per tensor; empty applies ``clip`` to all coordinates. By default none.
    """

    name: ClassVar[str] = "fixed64"
    clip: float = UNSET
    max_weight: int = UNSET
    tensors: Sequence[Tensor] = UNSET


@dataclass(frozen=True, kw_only=True)
class Integers(Encoding):
    """Unsigned integers without quantisation, with exact sums.

    Attributes
    ----------
    bits : int
        Bits of an integer. By default ``16``.
    max_weight : int
        Largest weight of an update; 1 gives every party the same weight. By default ``1``.
    """

    name: ClassVar[str] = "integers"
    bits: int = UNSET
    max_weight: int = UNSET


@dataclass(frozen=True, kw_only=True)
class FedAvg(ServerStep):
    """The mean, multiplied with the learning rate, is added to the model.

    Attributes
    ----------
    learning_rate : float
        Factor of the mean. By default ``1.0``.
    """

    name: ClassVar[str] = "fedavg"
    learning_rate: float = UNSET


@dataclass(frozen=True, kw_only=True)
class FedAvgM(ServerStep):
    """The momentum, multiplied with the learning rate, is added to the model.

    The momentum is the mean and, multiplied with `momentum`, the momentum of the round before.

    Attributes
    ----------
    learning_rate : float
        Factor of the momentum when it is added to the model. By default ``1.0``.
    momentum : float
        The part of the momentum that remains after a round. By default ``0.9``.
    """

    name: ClassVar[str] = "fedavgm"
    learning_rate: float = UNSET
    momentum: float = UNSET


@dataclass(frozen=True, kw_only=True)
class FedAdam(ServerStep):
    """Adam: each coordinate of the momentum is divided by the root of a moving average of the squared mean.

    There is no bias correction.

    Attributes
    ----------
    learning_rate : float
        Factor of the direction. By default ``0.01``.
    beta1 : float
        The part of the momentum that remains after a round. By default ``0.9``.
    beta2 : float
        The part of the second moment that remains after a round. By default ``0.99``.
    tau : float
        Added to the root of the second moment. The second moment begins with its square. By default
        ``0.001``.
    """

    name: ClassVar[str] = "fedadam"
    learning_rate: float = UNSET
    beta1: float = UNSET
    beta2: float = UNSET
    tau: float = UNSET


@dataclass(frozen=True, kw_only=True)
class FedYogi(ServerStep):
    """Yogi.

    As `fedadam`, but the second moment moves towards the squared mean by a part of the squared mean, so that
    it falls slowly.

    Attributes
    ----------
    learning_rate : float
        Factor of the direction. By default ``0.01``.
    beta1 : float
        The part of the momentum that remains after a round. By default ``0.9``.
    beta2 : float
        1 - beta2 is the part of the squared mean by which the second moment moves. By default ``0.99``.
    tau : float
        Added to the root of the second moment. The second moment begins with its square. By default
        ``0.001``.
    """

    name: ClassVar[str] = "fedyogi"
    learning_rate: float = UNSET
    beta1: float = UNSET
    beta2: float = UNSET
    tau: float = UNSET


@dataclass(frozen=True, kw_only=True)
class FedAdagrad(ServerStep):
    """Adagrad: each coordinate of the momentum is divided by the root of the sum of all squared means.

    Attributes
    ----------
    learning_rate : float
        Factor of the direction. By default ``0.1``.
    beta1 : float
        The part of the momentum that remains after a round. By default ``0.0``.
    tau : float
        Added to the root of the second moment. The second moment begins with its square. By default
        ``0.001``.
    """

    name: ClassVar[str] = "fedadagrad"
    learning_rate: float = UNSET
    beta1: float = UNSET
    tau: float = UNSET


@dataclass(frozen=True, kw_only=True)
class NoStop(Stop):
    """The job ends when its rounds are done, and no model is stored as the best one."""

    name: ClassVar[str] = "never"


@dataclass(frozen=True, kw_only=True)
class Plateau(Stop):
    """The job ends after a metric has not improved for some rounds.

    The model with its best value is stored.

    Attributes
    ----------
    metric : str
        The metric: the name of one of the job's ``metrics``. By default ``""``.
    better : str
        The direction of improvement. ``higher``: Greater values, for an accuracy; ``lower``: Smaller values,
        for a loss. By default ``"higher"``.
    patience : int
        Rounds with a value of the metric, and without a better one, after which the job ends; 0 never ends
        it, and only stores the best model. By default ``5``.
    least_gain : float
        The least improvement over the best value; exactly as much is not enough. By default ``0.0``.
    """

    name: ClassVar[str] = "plateau"
    metric: str = UNSET
    better: str = UNSET
    patience: int = UNSET
    least_gain: float = UNSET


@dataclass(frozen=True, kw_only=True)
class NoPrivacy(Privacy):
    """No noise: sums are exact, and what they tell of a party is not bounded."""

    name: ClassVar[str] = "none"


@dataclass(frozen=True, kw_only=True)
class DiscreteGaussian(Privacy):
    """Each party adds noise of a discrete Gaussian distribution to its update.

    The sum has the guarantee of the Gaussian mechanism. In jobs of mpc3 the servers add the noise to the sum.

    Attributes
    ----------
    noise_multiplier : float
        The standard deviation of the noise that hides a party (of the honest survivors; of one component in
        ``mpc3``), by the largest norm of an update; 0 finds the least one that meets ``epsilon``. From 2^-6
        to 2^10. By default ``0.0``.
    epsilon : float
        The largest ε after all rounds of the job, where it ends; 0 sets no target. By default ``0.0``.
    delta : float
        The δ of the guarantee, at most 0.01. It must be given. By default ``0.0``.
    adjacency : str
        Which two jobs must not be told apart. ``zero-out``: In one of them the update of a party is 0. The
        party takes part in both; ``replace``: The update of a party is any other one: twice as far from it.
        By default ``"zero-out"``.
    spare : float
        Rounds that may fail or be repeated, as a fraction of the job's rounds: ``epsilon`` has room for
        these, too. By default ``0.1``.
    """

    name: ClassVar[str] = "discrete-gaussian"
    noise_multiplier: float = UNSET
    epsilon: float = UNSET
    delta: float = UNSET
    adjacency: str = UNSET
    spare: float = UNSET


@dataclass(frozen=True, kw_only=True)
class Skellam(Privacy):
    """Each party adds noise of Skellam's distribution to its update.

    Its ε is a bound by Rényi divergences, a few percent above that of `discrete-gaussian`.

    Attributes
    ----------
    noise_multiplier : float
        The standard deviation of the noise that hides a party (of the honest survivors; of one component in
        ``mpc3``), by the largest norm of an update; 0 finds the least one that meets ``epsilon``. From 2^-6
        to 2^10. By default ``0.0``.
    epsilon : float
        The largest ε after all rounds of the job, where it ends; 0 sets no target. By default ``0.0``.
    delta : float
        The δ of the guarantee, at most 0.01. It must be given. By default ``0.0``.
    adjacency : str
        Which two jobs must not be told apart. ``zero-out``: In one of them the update of a party is 0. The
        party takes part in both; ``replace``: The update of a party is any other one: twice as far from it.
        By default ``"zero-out"``.
    spare : float
        Rounds that may fail or be repeated, as a fraction of the job's rounds: ``epsilon`` has room for
        these, too. By default ``0.1``.
    """

    name: ClassVar[str] = "skellam"
    noise_multiplier: float = UNSET
    epsilon: float = UNSET
    delta: float = UNSET
    adjacency: str = UNSET
    spare: float = UNSET


@dataclass(frozen=True, init=False)
class JobFields:
    """What every job has; a field that was not given has its default.

    Attributes
    ----------
    protocol : Protocol
        The protocol with its options: ``"name"``, or a table with ``name`` and options.
    parties : int
        Largest number of parties in a round.
    dim : int
        Number of coordinates of an update; where a ``layout`` is given, it follows from that.
    job : str
        Name of the job, ``[a-z0-9._-]{1,64}``, not only dots. By default ``"job"``.
    adversary : str
        The adversary against which the job must protect updates. ``semi-honest``: Coordinator and corrupt
        parties follow the protocol, and try to learn from their views; ``active``: Coordinator and corrupt
        parties may deviate from the protocol in any way. By default ``"active"``.
    suite : str
        Key agreement between parties. ``x25519``: X25519; ``p256``: NIST P-256. By default ``"x25519"``.
    min_parties : int
        Smallest number of survivors whose sum may be opened, and of parties in a round; 0 chooses, by the
        protocol, ``parties``, ``corrupt`` and ``dropout``. By default ``0``.
    rounds : int
        Number of rounds; 0 continues until the job is stopped. By default ``1``.
    encoding : Encoding
        The encoding of numbers as words, with its options: ``"name"``, or a table with ``name`` and options.
        By default ``"quantised"``.
    corrupt : float
        Fraction of ``parties`` that may work together with the coordinator. By default ``0.1``.
    dropout : float
        Fraction of the parties that may drop out of a round. By default ``0.1``.
    join_deadline : float
        Seconds that a round waits for parties to join. By default ``60.0``.
    stage_deadline : float
        Seconds that a stage waits for answers. By default ``30.0``.
    input_deadline : float
        Seconds that the input stage waits: training happens in it. By default ``600.0``.
    model_update : str
        The effect of the mean on the job's model. The default is ``add``, and ``none`` for integers. ``add``:
        It is added to the model: parties send differences; ``replace``: It becomes the model: parties send
        models; ``none``: Nothing: the job only computes means.
    metrics : tuple[Metric, ...]
        Values that parties may report beside an update, such as an accuracy: the weighted mean over the
        parties that report it is a part of the result. By default none.
    layout : tuple[str, ...]
        The tensors of the model in the order of their coordinates, a line ``NAME DTYPE SHAPE`` for each, as
        in ``conv1.weight float32 16x1x3x3``; a scalar has the shape ``1``. A party with another model refuses
        the job. By default none.
    parameters : Parameters
        Hyperparameters for the parties' programs: a free table of numbers, text, booleans and lists of these.
        By default none.
    step : ServerStep
        The formula for adding to the model, with its options: ``"name"``, or a table with ``name`` and
        options. By default ``"fedavg"``.
    initial : str
        The source of the job's first model. ``coordinator``: From the coordinator, or zeros with a warning if
        it has none; ``zeros``: It is zeros; ``first-party``: From the first connected party, by name, that
        can give one. The coordinator and all parties learn it. By default ``"coordinator"``.
    stop : Stop
        The rule that ends the job early and defines the best model, with its options: ``"name"``, or a table
        with ``name`` and options. A table without ``name`` means ``plateau``. By default ``"never"``.
    privacy : Privacy
        What hides a party in the sum itself, with its options: ``"name"``, or a table with ``name`` and
        options. A table without ``name`` means ``discrete-gaussian``. By default ``"none"``.
    """

    protocol: Protocol
    parties: int
    dim: int
    job: str
    adversary: str
    suite: str
    min_parties: int
    rounds: int
    encoding: Encoding
    corrupt: float
    dropout: float
    join_deadline: float
    stage_deadline: float
    input_deadline: float
    model_update: str
    metrics: tuple[Metric, ...]
    layout: tuple[str, ...]
    parameters: Parameters
    step: ServerStep
    initial: str
    stop: Stop
    privacy: Privacy


class JobArguments(TypedDict, total=False):
    """What a job is made of."""

    protocol: Required[str | Protocol | Mapping[str, object]]
    parties: Required[int]
    dim: int
    job: str
    adversary: str
    suite: str
    min_parties: int
    rounds: int
    encoding: str | Encoding | Mapping[str, object]
    corrupt: float
    dropout: float
    join_deadline: float
    stage_deadline: float
    input_deadline: float
    model_update: str
    metrics: Sequence[Metric]
    layout: Sequence[str] | ModelLayout
    parameters: Mapping[str, object]
    step: str | ServerStep | Mapping[str, object]
    initial: str
    stop: str | Stop | Mapping[str, object]
    privacy: str | Privacy | Mapping[str, object]


PROTOCOLS: dict[str, type[Protocol]] = {
    item.name: item
    for item in (
        Plain,
        SecAgg,
        SecAggPlus,
        Fssa,
        Pss,
        PssMalicious,
        Flashe,
        Mpc3,
        PaillierRing,
        PaillierBroadcast,
        PaillierAllReduce,
    )
}
ENCODINGS: dict[str, type[Encoding]] = {item.name: item for item in (Quantised, Fixed64, Integers)}
STEPS: dict[str, type[ServerStep]] = {
    item.name: item for item in (FedAvg, FedAvgM, FedAdam, FedYogi, FedAdagrad)
}
STOPS: dict[str, type[Stop]] = {item.name: item for item in (NoStop, Plateau)}
MECHANISMS: dict[str, type[Privacy]] = {item.name: item for item in (NoPrivacy, DiscreteGaussian, Skellam)}
