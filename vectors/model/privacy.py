"""Distributed differential privacy: sizes, tables and numbers of noise, epsilon of many releases."""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache
from hashlib import sha256

from . import privacy_servers
from .privacy_noise import cuts, number
from .privacy_sizes import UNITS, grid, sizes
from .privacy_words import rounds

DIGITS = 60
# Epsilon of so many releases by another program, dp-accounting 0.6.0: GaussianPrivacyLoss and its
# get_delta_for_epsilon, inverted by bisection, and RdpAccountant.
# z, releases, delta, exact, by Renyi divergences.
PEER = [
    (0.25, 1, 0.01, 16.52278915480942, 18.533470997750413),
    (0.25, 1, 1e-05, 24.381610883113677, 25.930920950267982),
    (0.25, 1, 1e-08, 29.824858035199554, 31.158767717619483),
    (0.25, 1, 1e-12, 35.5620827504851, 36.73672374702507),
    (0.25, 10, 0.01, 108.5095853223385, 116.32248367674264),
    (0.25, 10, 1e-05, 133.08627625818738, 138.68837010237718),
    (0.25, 10, 1e-08, 150.15997772399922, 154.9318189830203),
    (0.25, 10, 1e-12, 168.18544765796358, 172.28753322479295),
    (0.5, 1, 0.01, 5.9978925298189205, 6.925075962577449),
    (0.5, 1, 1e-05, 9.997256146434303, 10.725509696418232),
    (0.5, 1, 1e-08, 12.7492463996357, 13.38639080137985),
    (0.5, 1, 1e-12, 15.641125779460983, 16.206256656531878),
    (0.5, 10, 0.01, 33.865037449693645, 37.300797867091745),
    (0.5, 10, 1e-05, 46.2112101912181, 48.80169282486775),
    (0.5, 10, 1e-08, 54.77903226545192, 57.007037662369754),
    (0.5, 10, 1e-12, 63.81873029091638, 65.76266732606658),
    (1.0, 1, 0.01, 2.3177890403040493, 2.7531300382292283),
    (1.0, 1, 1e-05, 4.377178095681225, 4.728507067217623),
    (1.0, 1, 1e-08, 5.776098382890267, 6.0863539497691015),
    (1.0, 1, 1e-12, 7.238494420178856, 7.515295096206927),
    (1.0, 10, 0.01, 11.613837800250463, 13.156470375742776),
    (1.0, 10, 1e-05, 17.856586830107613, 19.05359753163139),
    (1.0, 10, 1e-08, 22.173434246767183, 23.21186420547467),
    (1.0, 10, 1e-12, 26.719799569762028, 27.633377370747937),
    (1.0, 1000, 0.01, 572.6009277250059, 592.7007047890393),
    (1.0, 1000, 1e-05, 633.9298513356147, 654.8612600716533),
    (1.0, 1000, 1e-08, 676.5467370896005, 689.4000364665641),
    (1.0, 1000, 1e-12, 721.5471743718094, 735.4517383264449),
    (2.5, 1, 0.01, 0.6822029498717451, 0.8484262663713524),
    (2.5, 1, 1e-05, 1.5549816915322032, 1.6937176062087547),
    (2.5, 1, 1e-08, 2.131016677771942, 2.253337881573774),
    (2.5, 1, 1e-12, 2.727095308452622, 2.837409564105397),
    (2.5, 10, 0.01, 3.183980696022357, 3.744710506808272),
    (2.5, 10, 1e-05, 5.759481465697511, 6.2083564483459375),
    (2.5, 10, 1e-08, 7.51808279099723, 7.913271041886828),
    (2.5, 10, 1e-12, 9.36019398367239, 9.712203137835097),
    (2.5, 1000, 0.01, 108.5095853223385, 116.32248367674264),
    (2.5, 1000, 1e-05, 133.08627625818738, 138.68837010237718),
    (2.5, 1000, 1e-08, 150.15997772399922, 154.9318189830203),
    (2.5, 1000, 1e-12, 168.18544765796358, 172.28753322479295),
    (4.0, 1, 0.01, 0.3598509092454655, 0.462488151700483),
    (4.0, 1, 1e-05, 0.9263415039982298, 1.0125506277526433),
    (4.0, 1, 1e-08, 1.2926800538199874, 1.3690794432484032),
    (4.0, 1, 1e-12, 1.6693138296157632, 1.7377202975438037),
    (4.0, 10, 0.01, 1.692351781381531, 2.0312180534847233),
    (4.0, 10, 1e-05, 3.3414094692393475, 3.617099772983339),
    (4.0, 10, 1e-08, 4.454825989146012, 4.6986338980965465),
    (4.0, 10, 1e-12, 5.616124999655114, 5.8339101535571185),
    (4.0, 1000, 0.01, 48.76743689528773, 53.168981904921836),
    (4.0, 1000, 1e-05, 64.16881038127403, 67.42404047319576),
    (4.0, 1000, 1e-08, 74.8623297570026, 77.73018738259648),
    (4.0, 1000, 1e-12, 86.14810112217091, 88.61574918678772),
    (10.0, 1, 0.01, 0.09270756622567879, 0.1331956235531493),
    (10.0, 1, 1e-05, 0.34066936468432374, 0.3752912223662765),
    (10.0, 1, 1e-08, 0.49285036535516463, 0.5235647050118015),
    (10.0, 1, 1e-12, 0.6470081259249767, 0.6778365359041558),
    (10.0, 10, 0.01, 0.49670075407212716, 0.6272175004406652),
    (10.0, 10, 1e-05, 1.1993695737531667, 1.3084972690274297),
    (10.0, 10, 1e-08, 1.6586571099772025, 1.755723987884498),
    (10.0, 10, 1e-12, 2.1324335076030048, 2.21898127833823),
    (10.0, 1000, 0.01, 11.613837800250463, 13.156470375742776),
    (10.0, 1000, 1e-05, 17.856586830107613, 19.05359753163139),
    (10.0, 1000, 1e-08, 22.173434246767183, 23.21186420547467),
    (10.0, 1000, 1e-12, 26.719799569762028, 27.633377370747937),
    (100.0, 1, 0.01, 0.0, 0),
    (100.0, 1, 1e-05, 0.027219419814577598, 0.03228903409255256),
    (100.0, 1, 1e-08, 0.044294784757682684, 0.04748519240277367),
    (100.0, 1, 1e-12, 0.06075221062978263, 0.06550934185869575),
    (100.0, 10, 0.01, 0.005695293497450313, 0.018060998852762012),
    (100.0, 10, 1e-05, 0.09697911060548658, 0.10860481624803403),
    (100.0, 10, 1e-08, 0.14776972683784617, 0.1629965900982871),
    (100.0, 10, 1e-12, 0.1980757545619926, 0.2106972523316048),
    (100.0, 1000, 0.01, 0.4967007540721268, 0.627217500440665),
    (100.0, 1000, 1e-05, 1.1993695737531682, 1.3084972690274297),
    (100.0, 1000, 1e-08, 1.6586571099772027, 1.755723987884498),
    (100.0, 1000, 1e-12, 2.132433507603005, 2.2189812783382297),
    (1000.0, 1, 0.01, 0.0, 0),
    (1000.0, 1, 1e-05, 0.0019387249698604796, 0.0040134096770715055),
    (1000.0, 1, 1e-08, 0.003924011098959569, 0.010765858630133225),
    (1000.0, 1, 1e-12, 0.005699546468431298, 0.01976912390088218),
    (1000.0, 10, 0.01, 0.0, 0),
    (1000.0, 10, 1e-05, 0.0074343593517940355, 0.008621409677071507),
    (1000.0, 10, 1e-08, 0.013224535464456004, 0.015373858630133224),
    (1000.0, 10, 1e-12, 0.01862239857861242, 0.024377123900882182),
    (1000.0, 1000, 0.01, 0.005695293497450313, 0.018060998852762012),
    (1000.0, 1000, 1e-05, 0.09697911060548658, 0.10860481624803403),
    (1000.0, 1000, 1e-08, 0.14776972683784617, 0.1629965900982871),
    (1000.0, 1000, 1e-12, 0.1980757545619926, 0.2106972523316048),
]
# Whole vectors against 0 with discrete Gaussian noise of this variance: delta and epsilon of the exact
# privacy loss distribution by dp-accounting 0.6.0, for the sum of squares given. The claim is not below.
EXACT_DISCRETE = [
    (192, 64, [(1e-3, 1.6104468182890372), (1e-5, 2.3446356600340623), (1e-8, 3.1657574505195973)]),
    (192, 120, [(1e-3, 2.3531060790943448), (1e-5, 3.342674513036527), (1e-8, 4.456095342457685)]),
    (400, 352, [(1e-3, 2.9006396435675725), (1e-5, 4.065677003569249), (1e-8, 5.3802936053583315)]),
]
LARGE = (*range(11, 64), 128, 256, 512, 1024)
ORDERS = [Fraction(n, 10) for n in range(11, 110)] + [Fraction(n) for n in LARGE]


@cache
def two_pi_root() -> Decimal:
    """sqrt(2 pi), from Machin's formula."""

    def arctan_of_one_by(n: int) -> Decimal:
        total, power, k = Decimal(0), Decimal(1) / n, 0
        while power > Decimal(10) ** -(DIGITS + 5):
            total += (-1) ** k * power / (2 * k + 1)
            power /= n * n
            k += 1
        return total

    return (8 * (4 * arctan_of_one_by(5) - arctan_of_one_by(239))).sqrt()


def below(x: Decimal) -> Decimal:
    """Phi(x): 1/2 and an alternating series in enough digits for what is lost, or the continued fraction."""
    if abs(x) > 12:
        x_abs = abs(x)
        rest = x_abs
        for k in range(400, 0, -1):
            rest = x_abs + k / rest
        tail = (-x * x / 2).exp() / two_pi_root() / rest
        return tail if x < 0 else 1 - tail
    with localcontext() as context:
        context.prec = DIGITS + 70
        term, total, n = x, x, 0
        while abs(term) > Decimal(10) ** -(DIGITS + 40):
            n += 1
            term *= -x * x / (2 * n)
            total += term / (2 * n + 1)
        half = Decimal(1) / 2 + total / two_pi_root()
    return +half


def exact_delta(epsilon: Decimal, mu: Decimal) -> Decimal:
    """Phi(mu/2 - epsilon/mu) - exp(epsilon) Phi(-mu/2 - epsilon/mu)."""
    return below(mu / 2 - epsilon / mu) - epsilon.exp() * below(-mu / 2 - epsilon / mu)


def exact_epsilon(delta: Decimal, mu: Decimal) -> Decimal:
    """The inverse, to 18 digits."""
    if exact_delta(Decimal(0), mu) <= delta:
        return Decimal(0)
    high = Decimal(1)
    while exact_delta(high, mu) > delta:
        high *= 2
    low = Decimal(0)
    while high - low > high * Decimal(10) ** -18:
        middle = (low + high) / 2
        low, high = (middle, high) if exact_delta(middle, mu) > delta else (low, middle)
    return high


def by_orders(divergence: list[Decimal], delta: Decimal) -> Decimal:
    """The least epsilon over all orders: r + ln(1 - 1/a) - ln(delta a) / (a - 1)."""
    best = []
    for order, value in zip(ORDERS, divergence, strict=True):
        a = Decimal(order.numerator) / order.denominator
        best.append(value + (1 - 1 / a).ln() - (delta * a).ln() / (a - 1))
    return max(min(best), Decimal(0))


def close(ours: Decimal, theirs: float) -> None:
    """The model and dp-accounting agree to 1e-6."""
    assert abs(ours - Decimal(theirs)) <= Decimal("1e-6") * max(abs(ours), Decimal("1e-3")), (ours, theirs)


def gaussian_figures() -> list[dict[str, object]]:
    """Epsilon on a grid, checked against dp-accounting."""
    found = []
    for z, releases, delta_float, exact, by_divergences in PEER:
        delta = Decimal(delta_float)
        mu = Decimal(releases).sqrt() / Decimal(z)
        ours = exact_epsilon(delta, mu)
        renyi = by_orders([Decimal(a.numerator) / a.denominator * mu * mu / 2 for a in ORDERS], delta)
        close(ours, exact)
        close(renyi, by_divergences)
        found.append(
            {
                "units": int(z * UNITS),
                "releases": releases,
                "delta": delta_float,
                "epsilon": float(ours),
                "epsilon_renyi": float(renyi),
            }
        )
    return found


def skellam_figures() -> list[dict[str, object]]:
    """Epsilon by the bound of Agarwal, Kairouz and Liu (2021)."""
    found = []
    for parties, dim, bits, units, adjacency in [
        (10, 1000, 10, UNITS, "zero-out"),
        (10, 1000, 8, 4 * UNITS, "replace"),
        (100, 1000, 8, UNITS // 2, "zero-out"),
        (100, 100, 7, UNITS, "zero-out"),
    ]:
        sized = sizes(parties, dim, parties, bits, units, mechanism="skellam", adjacency=adjacency)
        for honest in (parties, 1):
            variance = Decimal(honest * sized["variance_units"]) / 1024
            squares = Decimal(sized["squared_norm"] * (4 if adjacency == "replace" else 1))
            root = Decimal(int(Decimal(dim).sqrt()) + 1)
            total = min(root * squares.sqrt(), squares)
            for releases in (1, 10):
                for delta in (1e-3, 1e-8):
                    values = []
                    for order in ORDERS:
                        # The bound is proved for whole orders.
                        if order.denominator != 1:
                            values.append(Decimal("Infinity"))
                            continue
                        a = Decimal(order.numerator)
                        by_square = ((2 * a - 1) * squares + 6 * total) / (4 * variance**2)
                        more = min(by_square, 3 * total / (2 * variance))
                        values.append(releases * (a * squares / (2 * variance) + more))
                    found.append(
                        {
                            "parties": parties,
                            "dim": dim,
                            "bits": bits,
                            "units": units,
                            "adjacency": adjacency,
                            "honest": honest,
                            "releases": releases,
                            "delta": delta,
                            "epsilon": float(by_orders(values, Decimal(delta))),
                        }
                    )
    return found


def least_multipliers() -> list[dict[str, object]]:
    """The least noise multiplier on its grid for a target."""
    found = []
    for epsilon, delta, releases, factor in [
        (2.0, 1e-5, 100, 1),
        (2.0, 1e-5, 100, 2),
        (0.5, 1e-8, 1, 1),
        (100.0, 1e-2, 1, 1),
        (8.0, 1e-6, 1000, 1),
    ]:
        low, high = 2**10, 2**26
        while low < high:
            middle = (low + high) // 2
            mu = factor * Decimal(releases).sqrt() * UNITS / middle
            reached = exact_delta(Decimal(epsilon), mu) <= Decimal(delta)
            low, high = (low, middle) if reached else (middle + 1, high)
        adjacency = {1: "zero-out", 2: "replace"}[factor]
        found.append(
            {"epsilon": epsilon, "delta": delta, "releases": releases, "adjacency": adjacency, "units": low}
        )
    return found


def tables() -> list[dict[str, object]]:
    """Cuts of both distributions, as hexadecimal digits."""
    found = []
    for mechanism, numerator, denominator in [
        ("discrete-gaussian", 16, 1),
        ("discrete-gaussian", 103, 1),
        ("discrete-gaussian", 368_639, 1024),
        ("discrete-gaussian", 1, 1),
        ("skellam", 1, 1),
        ("skellam", 5, 3),
        ("skellam", 1234, 5),
    ]:
        variance = Fraction(numerator, denominator)
        all_cuts = [f"{cut:032x}" for cut in cuts(mechanism, variance)]
        found.append(
            {
                "mechanism": mechanism,
                "numerator": numerator,
                "denominator": denominator,
                "cuts": all_cuts,
            }
        )
    return found


def draws() -> list[dict[str, object]]:
    """Numbers of a key at the beginning, at the end of a block and far away."""
    found = []
    for mechanism, numerator, denominator in [
        ("discrete-gaussian", 16, 1),
        ("discrete-gaussian", 359, 1),
        ("discrete-gaussian", 50_000, 1),
        ("discrete-gaussian", 13_700_000 * 1024 + 1, 1024),
        ("discrete-gaussian", 2**40, 1),
        ("skellam", 7, 1),
        ("skellam", 600, 1),
    ]:
        seed = sha256(f"noise {mechanism} {numerator}".encode()).digest()
        variance = Fraction(numerator, denominator)
        for first, count in [(0, 24), (1020, 8), (2**40 - 2, 4)]:
            numbers = [number(seed, mechanism, variance, first + i) for i in range(count)]
            found.append(
                {
                    "mechanism": mechanism,
                    "numerator": numerator,
                    "denominator": denominator,
                    "seed": seed.hex(),
                    "first": first,
                    "numbers": numbers,
                }
            )
    return found


def vectors() -> dict[str, object]:
    """Everything that goes into ``privacy.json``."""
    with localcontext() as context:
        context.prec = DIGITS
        return {
            "sizes": grid(),
            "servers": privacy_servers.grid(),
            "tables": tables(),
            "draws": draws(),
            "gaussian": gaussian_figures(),
            "exact_discrete": [
                {"variance": variance, "squares": squares, "delta": delta, "epsilon": epsilon}
                for variance, squares, figures in EXACT_DISCRETE
                for delta, epsilon in figures
            ],
            "skellam": skellam_figures(),
            "multipliers": least_multipliers(),
            "rounds": rounds(),
        }
