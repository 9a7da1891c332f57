"""Bad input gives one clear error of our own class, and nothing is half-done."""

import contextlib
import itertools
import math
import operator
import sys
from decimal import Decimal
from fractions import Fraction
from functools import partial

import numpy as np
import pytest

import mechc
from mechc.cli.arguments import counts_of, number_of
from mechc.errors import DeclarationError, MechcError, UnsupportedError
from mechc.integrations.dp_accounting import from_dp_accounting, to_dp_accounting
from mechc.reductions import (
    banded_matrix,
    drawn_with_replacement,
    matrix_mechanism,
    random_allocation,
    tree_aggregation,
    truncated_poisson,
)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"scale": -1}, r"laplace: scale=-1 is not positive \(expected scale > 0\)"),
        ({"scale": 0}, r"scale=0 is not positive"),
        ({"scale": math.nan}, r"scale=nan is not a finite number"),
        ({"scale": math.inf}, r"scale=inf is not a finite number"),
        ({"scale": "2"}, r"scale='2' is not a finite number"),
        ({"scale": True}, r"scale=True is not a finite number"),
        ({"scale": None}, r"scale=None is not a finite number"),
        ({"scale": 1j}, r"scale=1j is not a finite number"),
        ({}, r"missing parameter scale \(expected scale > 0\)"),
        ({"scale": 1, "sclae": 2}, r"unknown parameter 'sclae'; did you mean scale\? \(parameters"),
    ],
)
def test_parameters(laplace, values, message):
    with pytest.raises(DeclarationError, match=message):
        laplace(**values)


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("discrete_laplace", {"a": 1.0, "sensitivity": 1.5}, "sensitivity=1.5 is not an integer"),
        ("randomized_response", {"epsilon": 1.0, "categories": 2.5}, "is not an integer"),
        ("approximate_dp", {"epsilon": 1.0, "delta": 1.5}, r"expected 0 <= delta <= 1"),
        ("approximate_dp", {"epsilon": 1.0, "delta": -0.1}, r"delta=-0.1 is negative"),
    ],
)
def test_domains(name, values, message):
    with pytest.raises(DeclarationError, match=message):
        mechc.load(name)(**values)


@pytest.mark.parametrize("rate", [-0.1, 1.1, math.nan, math.inf, "0.1", True])
def test_sampling_rate(gaussian, rate):
    with pytest.raises(DeclarationError, match="sampling_rate"):
        mechc.poisson(gaussian, sampling_rate=rate)


@pytest.mark.parametrize("kind", [int, np.int64, np.uint64, np.longdouble, Fraction, Decimal])
def test_integers_that_are_no_doubles(gaussian, kind):
    """They were answered for another parameter, the double next to them."""
    with pytest.raises(DeclarationError, match=r"9007199254740993.*closest is 9007199254740992"):
        gaussian(sigma=kind(2**53 + 1))
    with pytest.raises(DeclarationError, match="doubles do not have"):
        mechc.load("binomial")(trials=kind(2**53 + 1))
    assert gaussian(sigma=kind(2**60)).parameters["sigma"] == 2.0**60
    assert number_of("9007199254740993") == 2**53 + 1


@pytest.mark.parametrize("value", [Fraction(3 * 2**53 + 4, 3), Decimal("9007199254740993.5")])
def test_fractions_beyond_all_fractions_of_doubles(gaussian, value):
    """They are rounded like others, and were said to be integers that doubles do not have."""
    assert gaussian(sigma=value).parameters["sigma"] == float(value)
    with pytest.raises(DeclarationError, match=r"trials=.* is not an integer \(expected integer"):
        mechc.load("binomial")(trials=value)


def test_parameters_have_names(laplace):
    with pytest.raises(DeclarationError, match=r"2\.0 has no name \(expected keywords: scale, s"):
        laplace(2.0)


@pytest.mark.parametrize("probability", [0, 1.5, math.nan, [], "half"])
def test_probability(laplace, probability):
    with pytest.raises(DeclarationError, match=r"probability=.* \(expected 0 < probability < 1"):
        laplace(scale=1.0).noise.quantile(probability)


@pytest.mark.parametrize("path", [3, None, b"x", "", ".", [], 1.5, "a\0b"])
def test_paths(gaussian, path):
    event, spent = gaussian(sigma=1.0), mechc.individual.GDPFilter(people=1, mu=1.0)
    whole = (gaussian.emit, event.save, mechc.open, spent.save, spent.restore)
    for ask in (*whole, mechc.individual.GDPFilter.load, partial(event.save, append=True)):
        with pytest.raises(DeclarationError, match=r"path=.* the name of a file"):
            ask(path)


def test_questions_of_a_run_file(gaussian, tmp_path):
    event = gaussian(sigma=1.0)
    for wrong in ({"delta": "x"}, {"delta": [2.0]}, {"epsilon": [None]}, {"append": "yes"}):
        with pytest.raises(DeclarationError, match=next(iter(wrong))):
            event.save(tmp_path / "run.json", **wrong)
    with pytest.raises(DeclarationError, match="epsilon="):
        event.check("x")


def test_an_empty_run_file(tmp_path):
    path = tmp_path / "run.json"
    path.touch()
    with pytest.raises(DeclarationError, match=r"run\.json: holds no run"):
        mechc.open(path)


def test_no_steps_meet_any_target(gaussian):
    with pytest.raises(UnsupportedError, match="every sigma"):
        mechc.calibrate(gaussian, solve_for="sigma", count=0, epsilon=1.0, delta=1e-5)


def test_a_count_to_solve_for_is_not_given(laplace):
    with pytest.raises(DeclarationError, match="count=5 is given and solved for"):
        mechc.calibrate(laplace, solve_for="count", count=5, scale=9.0, epsilon=1.0, delta=0.1)


def test_sampling_needs_a_known_adjacency(gaussian):
    with pytest.raises(DeclarationError, match="expected one of add_remove, replace"):
        mechc.poisson(gaussian, sampling_rate=0.1, adjacency="remove")


def test_sampling_a_composition_is_refused(gaussian):
    with pytest.raises(UnsupportedError, match="apply it to each part"):
        mechc.poisson(3 * gaussian(sigma=1.0), sampling_rate=0.1)


def test_a_bound_parameter_cannot_be_bound_again(gaussian):
    with pytest.raises(DeclarationError, match=r"sampling_rate is bound to 0\.1 already"):
        mechc.poisson(gaussian, sampling_rate=0.1)(sigma=1.0, sampling_rate=0.2)


@pytest.mark.parametrize("count", [-1, 1.5, 10**12 + 1, math.nan, math.inf, "3", None, True])
def test_counts(gaussian, count):
    event = gaussian(sigma=1.0)
    with pytest.raises(DeclarationError, match="count="):
        mechc.compose((event, count))
    with pytest.raises(DeclarationError, match="count="):
        event * count


def test_merged_counts_have_the_same_limit(gaussian):
    event = gaussian(sigma=1.0)
    with pytest.raises(DeclarationError, match="too large"):
        10**12 * event + event


@pytest.mark.parametrize("count", [3, np.int64(3), 3.0, np.float64(3.0), np.uint8(3)])
def test_accepted_counts(gaussian, count):
    assert (count * gaussian(sigma=1.0)).count == 3
    assert (gaussian(sigma=1.0) * count).count == 3


def test_only_events_compose(gaussian):
    with pytest.raises(DeclarationError, match="neither an event nor a composition"):
        mechc.compose(gaussian)
    with pytest.raises(DeclarationError, match=r"\+ 1: expected an event or a composition"):
        gaussian(sigma=1.0) + 1


@pytest.mark.parametrize("epsilon", [math.nan, "1", None, [0.1, math.nan]])
def test_epsilon(gaussian, epsilon):
    with pytest.raises(DeclarationError, match="epsilon="):
        gaussian(sigma=1.0).delta(epsilon)


@pytest.mark.parametrize("delta", [-1e-9, 1.0001, math.nan, "1e-5", [1e-5, 2.0]])
def test_delta(gaussian, delta):
    with pytest.raises(DeclarationError, match="delta="):
        gaussian(sigma=1.0).epsilon(delta)


def test_one_target_only(gaussian):
    event = gaussian(sigma=1.0)
    with pytest.raises(DeclarationError, match="exactly one"):
        event.epsilon()
    with pytest.raises(DeclarationError, match="exactly one"):
        event.epsilon(1e-5, log_delta=-3.0)
    with pytest.raises(DeclarationError, match="log_delta <= 0"):
        event.epsilon(log_delta=1.0)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"method": "contuor"}, "expected one of auto, contour"),
        ({"method": "contour:fast"}, "expected one of|accepts|takes no option|fast"),
        ({"direction": "sideways"}, "expected one of both, remove, add"),
        ({"rtol": 0.0}, "expected 0 < rtol < 1"),
        ({"method": "saddlepoint", "variant": "msd9"}, "msd9"),
        ({"method": "contour", "variant": 3}, "variant=3"),
    ],
)
def test_how_to_answer(gaussian, how, message):
    with pytest.raises((DeclarationError, UnsupportedError), match=message):
        gaussian(sigma=1.0).delta(1.0, **how)


@pytest.mark.parametrize("what", ["no_such_mechanism", "no/such/file.py", 3, None])
def test_load(what):
    with pytest.raises(DeclarationError):
        mechc.load(what)


def test_a_file_with_a_syntax_error(tmp_path):
    path = tmp_path / "broken.py"
    path.write_text("from mechc.declare import additive\nadditive((\n")
    with pytest.raises(DeclarationError, match=r"broken\.py, line \d"):
        mechc.load(path)(scale=1.0)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("p=exp(-Abs(x)), q=exp(-Abs(x - 1)) / 2", "mass|integrate|one"),
        ("p=exp(-Abs(x)) / 2 + y, q=exp(-Abs(x)) / 2", "y"),
        (
            "p=Piecewise((1, (0 < x) & (x < 1)), (0, True)),"
            "q=Piecewise((1, (2 < x) & (x < 3)), (0, True))",
            "share no outcome",
        ),
        ("p=exp(-x**2) * (1 - x) / sqrt(pi), q=exp(-x**2) / sqrt(pi)", "negative"),
    ],
)
def test_declarations_that_are_refused(tmp_path, body, message):
    path = tmp_path / "wrong.py"
    path.write_text(
        "from sympy import Abs, Piecewise, Symbol, exp, pi, sqrt\n"
        "from mechc.declare import mechanism, real\n"
        'x, y = real("x"), Symbol("y")\n'
        f'wrong = mechanism("wrong", variable=x, {body})\n'
    )
    with pytest.raises(DeclarationError, match=message):
        mechc.load(path)()


@pytest.mark.parametrize("counts", [range(10**12), range(10**30), itertools.repeat(1)])
def test_more_counts_than_memory_holds_are_refused(counts):
    with pytest.raises(DeclarationError, match="more than"):
        mechc.load("gaussian")(sigma=3.0).epsilon_curve(1e-5, counts)


def test_a_range_of_counts_on_the_command_line_is_not_listed_before_it_is_measured():
    assert counts_of("1:10:4") == [1, 5, 9]
    with pytest.raises(DeclarationError, match="more than"):
        counts_of("1:1000000000000")


@pytest.mark.parametrize("junk", ["ab", [[0.5], [0.5, 0.5]], [None, 1.0]])
def test_tables_that_are_no_numbers(junk):
    for make in (
        lambda: mechc.from_pmfs(junk, [0.5, 0.5]),
        lambda: mechc.from_losses(junk, [0.5, 0.5]),
        lambda: mechc.rdp(junk, [1.0, 2.0]),
        lambda: mechc.post_process(mechc.load("gaussian")(sigma=1.0), junk),
    ):
        with pytest.raises(DeclarationError):
            make()


def test_counts_of_a_curve_are_several():
    with pytest.raises(DeclarationError, match="several"):
        mechc.load("gaussian")(sigma=1.0).epsilon_curve(0.1, 5)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("sigma", "least"), [(5e-324, 0.0), (1e-8, 1.0 - 1e-12)])
def test_noise_too_narrow_for_doubles(sigma, least):
    """Delta is 1 - exp(-1 / 8 sigma^2) and more."""
    for epsilon in (-1.0, 0.0, 1.0):
        bound = mechc.load("gaussian")(sigma=sigma).delta(epsilon)
        assert least <= bound.lower <= bound.upper == 1.0


WRONG = [
    "x", b"x", math.nan, -math.inf, -1, 1e300, 10**400, 1j, (), [[]], [math.nan], [1.0, None],
    ["a", 1.0], np.array([]), np.array([[0.5, 0.5]]), {"a": 1}, object(),
]  # fmt: skip


def right_calls():
    """Functions of operations and tables with arguments that are right."""
    gaussian = mechc.load("gaussian")
    event = gaussian(sigma=1.0)
    rr = mechc.load("pure_dp")(epsilon=1.0)
    table = mechc.from_pmfs([0.5, 0.5], [0.25, 0.75])
    return [
        (mechc.poisson, {"what": event, "sampling_rate": 0.5, "adjacency": "add_remove"}),
        (mechc.poisson, {"what": table, "sampling_rate": 0.5}),
        (mechc.without_replacement, {"what": event, "sampling_rate": 0.5}),
        (mechc.with_replacement, {"what": event, "dataset_size": 10, "batch_size": 2}),
        (mechc.random_sensitivity, {"what": event, "sensitivities": [1, 2], "weights": [0.5, 0.5]}),
        (mechc.shift, {"what": event, "factor": 2.0}),
        (mechc.group, {"what": event, "size": 2}),
        (mechc.truncate, {"what": event, "lower": -9.0, "upper": 9.0}),
        (mechc.vector, {"what": event, "norm": "l2"}),
        (lambda part: mechc.product(part, event), {"part": event}),
        (mechc.mixture, {"events": [rr, rr], "weights": [0.5, 0.5], "step": 1e-2,
                         "adjacency": "replace", "revealing": 0.0, "assumed": ["a"],
                         "beneath": rr}),
        (mechc.optimise, {"mechanism": gaussian, "over": {}, "target": (1.0, 1e-5)}),
        (mechc.tournament, {"target": (1.0, 1e-5), "mechanisms": [gaussian], "progress": len}),
        (mechc.zcdp, {"rho": 0.5, "xi": 0.0, "adjacency": "any"}),
        (mechc.post_process, {"event": rr, "edges": [0.5]}),
        (mechc.from_losses, {"losses": [1, -1], "masses": [0.5, 0.25], "infinite_mass": 0.25,
                             "step": 0.1, "symmetric": False, "name": "t", "because": "b",
                             "add": ([1, -1], [0.5, 0.25], 0.25), "adjacency": "any"}),
        (mechc.from_pmfs, {"p": [0.5, 0.5], "q": [0.5, 0.5], "name": "t", "because": "b"}),
        (matrix_mechanism, {"encoder": np.eye(2), "sigma": 1.0, "participations": [[0, 1]]}),
        (tree_aggregation, {"steps": 4, "sigma": 1.0}),
        (banded_matrix, {"encoder": np.eye(2), "sigma": 1.0, "sampling_rate": 0.1}),
        (random_allocation, {"sigma": 1.0, "sensitivity": 1.0}),
        (truncated_poisson, {"event": 1.0, "dataset_size": 10, "sampling_rate": 0.1,
                             "batch_cap": 10}),
        (drawn_with_replacement, {"event": event, "dataset_size": 10, "batch_size": 1}),
        (to_dp_accounting, {"event": rr, "discretization": 1e-2}),
        (from_dp_accounting, {"pld": None}),
    ]  # fmt: skip


CALLS = 25  # told, as making them to count them compiles three mechanisms


def test_all_calls_are_counted():
    assert len(right_calls()) == CALLS


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("place", range(CALLS))
def test_wrong_arguments_are_our_errors(place):
    """Each argument in turn is what it cannot be: an answer or an error of ours, never Python's."""
    function, given = right_calls()[place]
    refused = 0
    for name in given:
        for wrong in (*WRONG, mechc.from_pmfs([0.5, 0.5], [0.25, 0.75])):
            try:
                function(**{**given, name: wrong})
            except MechcError:
                refused += 1
    assert refused >= len(WRONG) // 2


@pytest.mark.parametrize("whole", [np.int64(16), np.uint8(16), 16.0, np.float32(16.0)])
def test_whole_numbers_of_every_type(whole):
    assert tree_aggregation(whole, 1.0) == tree_aggregation(16, 1.0)
    group = mechc.group(mechc.load("gaussian")(sigma=1.0), whole)
    assert group.parameters["group_size"] == 16.0
    pattern = np.array([[0, 2], [1, 3]])
    several = matrix_mechanism(np.eye(4), 1.0, participations=pattern)
    assert several == matrix_mechanism(np.eye(4), 1.0, participations=[[0, 2], [1, 3]])


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"target_delta": 1e-5}, r"target_delta=1e-05 is not known here; did you mean delta\?"),
        ({"delta": 1e-5, "cls": 3}, "cls=3 is not known here"),
        ({"delta": 1e-5, "certified": "no"}, "certified='no'"),
        ({"delta": 1e-5, "certified": math.nan}, "certified=nan"),
        ({"delta": 1e-5, "direction": np.array([])}, "direction="),
        ({"delta": 1e-5, "rtol": "small"}, "rtol='small'"),
        ({"delta": 1 + 1j}, "is not a number"),
        ({"delta": np.complex128(1e-5)}, "is not a number"),
    ],
)
def test_arguments_of_a_query(gaussian, how, message):
    with pytest.raises(DeclarationError, match=message):
        gaussian(sigma=1.0).epsilon(**how)


def test_no_points_no_answers(gaussian):
    run = 10 * gaussian(sigma=1.0)
    for none in ([], range(0), np.array([])):
        assert run.epsilon_curve(1e-5, none).upper.shape == (0,)
    assert run.epsilon([]).upper.shape == (0,)
    with pytest.raises(DeclarationError, match="counts='10:1'"):
        counts_of("10:1")


def test_a_tolerance_that_nothing_reaches_is_no_error(gaussian):
    answer = gaussian(sigma=1.0).delta(1.0, rtol=5e-324, max_work=1e6)
    assert answer.upper - answer.lower < 1e-9


def test_every_argument_of_every_query_is_checked(gaussian):
    """Whatever is handed in, there is an answer or an error of our own."""
    words = [
        None, True, "1", "auto", b"1", 1j, np.complex64(1), math.nan, 10**400, [], [[]], [1, [2]],
        [None], {}, {1: 2}, {1.0}, np.array([]), np.array(["a"]), np.bool_(True), len, slice(3),
        np.datetime64("2020-01-01"), object(),
    ]  # fmt: skip
    odd = [
        *words, math.inf, -math.inf, -1, 0, 5e-324, 1e-310, 1e308, (0.1, 0.2), np.array(0.5),
        np.float32(0.5), range(3), Fraction(1, 2), Decimal("0.5"),
    ]  # fmt: skip
    run = 2 * gaussian(sigma=1.0)
    calls = {
        run.log_delta: ("epsilon", "method", "direction", "rtol", "max_work", "certified"),
        run.epsilon: ("delta", "log_delta"),
        run.tradeoff: ("alpha",),
        run.renyi: ("orders", "direction"),
        run.gdp: ("epsilon_max",),
        run.epsilon_curve: ("delta", "counts"),
        run.plot: ("kind", "counts", "delta"),
    }
    good = {
        run.log_delta: {"epsilon": 1.0, "max_work": 1e6},
        run.renyi: {"orders": 2.0},
        run.gdp: {"max_work": 1e3},
        run.epsilon_curve: {"delta": 1e-5, "counts": [1]},
        run.plot: {"kind": "steps", "counts": [1]},
    }
    for call, names in calls.items():
        for name, value in itertools.product(names, odd):
            with contextlib.suppress(MechcError):
                call(**{**good.get(call, {}), name: value})
    how = {"solve_for": "sigma", "epsilon": 1.0, "delta": 1e-5}
    for name, value in itertools.product(("epsilon", "delta", "count", "solve_for"), words):
        with pytest.raises(MechcError):
            mechc.calibrate(gaussian, **{**how, name: value})


def test_certified_answers_name_the_extra_that_they_need(gaussian, monkeypatch):
    monkeypatch.setitem(sys.modules, "flint", None)
    for name in [name for name in sys.modules if name.startswith("mechc.verify.")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(UnsupportedError, match=r"mechc\[verify\]"):
        gaussian(sigma=1.0).delta(1.0, certified=True)


@pytest.mark.parametrize("junk", ["x", None, 1j, object(), [None], np.zeros((2, 2, 3))])
def test_bounds_compare_with_numbers_and_bounds_alone(laplace, junk):
    bounds = laplace(scale=1.0).delta([0.1, 0.5])
    for compare in (operator.lt, operator.le, operator.gt, operator.ge):
        with pytest.raises(DeclarationError, match=r"(?s)delta [<>]=? .*expected a number or a b"):
            compare(bounds, junk)
    assert bounds != junk


def test_bounds_are_equal_where_all_that_they_say_is(laplace):
    one, again, other = (laplace(scale=1.0).delta([0.1, at]) for at in (0.5, 0.5, 0.6))
    assert one == again and hash(one) == hash(again) and one != other
    assert (np.array([0.0, 1.0]) < one).tolist() == (np.array([0.0, 1.0]) < one.upper).tolist()


@pytest.mark.parametrize(
    "what",
    [lambda b: b + None, lambda b: 2 * b, lambda b: np.float64(2) * b, lambda b: sum([b, b]),
     lambda b: -b, lambda b: round(b, 2), lambda b: b / 2],
)  # fmt: skip
def test_bounds_are_no_numbers(laplace, what):
    with pytest.raises(DeclarationError, match=r"an interval, .*float\(bound\), .* upper side"):
        what(laplace(scale=1.0).delta(0.1))


def test_several_bounds_are_not_one_number(laplace):
    with pytest.raises(
        DeclarationError, match=r"2 bounds on delta .*\(expected bound.upper, an arr"
    ):
        float(laplace(scale=1.0).delta([0.1, 0.5]))
    with pytest.raises(DeclarationError, match=r"format 'x' \(expected one of numbers, as .3f\)"):
        format(laplace(scale=1.0).delta(0.1), "x")


@pytest.mark.parametrize("what", [lambda m: 3 * m, lambda m: m + m, lambda m: sum([m, m])])
def test_mechanisms_are_called_before_they_are_composed(laplace, what):
    with pytest.raises(
        DeclarationError, match=r"expected laplace\(scale=...\), a mechanism called"
    ):
        what(laplace)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"target": "x"}, "target='x'"), ({"smallest": "x"}, "smallest='x'"),
        ({"epoch": 0}, "epoch=0"), ({"methods": "renyi"}, "methods='renyi'.*names of accountants"),
        ({"label": 3}, "label=3 .*text"), ({"beside": {"a": 3}}, "beside=.*runs or events"),
        ({"beside": "x"}, "beside='x'.*runs or events"), ({"ax": "x"}, "ax='x'.*matplotlib"),
    ],
)  # fmt: skip
def test_what_is_drawn(laplace, words, message):
    pytest.importorskip("matplotlib")
    with pytest.raises(DeclarationError, match=message):
        laplace(scale=1.0).plot(**words)


def test_questions_by_words_of_others(laplace):
    for what in (laplace(scale=1.0), 2 * laplace(scale=1.0)):
        with pytest.raises(AttributeError, match="no attribute 'rho'; did you mean zcdp"):
            what.rho()
        with pytest.raises(AttributeError, match="no attribute 'epsilom'; did you mean epsilon"):
            what.epsilom(1e-5)
        with pytest.raises(DeclarationError, match="log_delta and epsilon have certified"):
            what.tpr(0.1, certified=True)
    words = {"dataset_size": 10, "batch_size": 2, "steps": 1, "noise_multiplier": 1.0}
    with pytest.raises(DeclarationError, match="not known; the run that is returned"):
        mechc.dpsgd(**words, target_delta=0.1)


def test_messages_show_the_beginning_of_long_values():
    for count in (np.arange(900.0), [*range(900)]):
        with pytest.raises(DeclarationError) as refused:
            mechc.load("pure_dp")(epsilon=1.0) * count
        assert len(str(refused.value)) < 200 and "\n" not in str(refused.value)
