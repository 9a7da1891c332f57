"""Datasheets, figures of a run, and what to cite."""

import math
import runpy
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import sympy
from scipy.stats import norm

import mechc
from mechc.errors import DeclarationError, UnsupportedError
from mechc.protocol import Measure
from mechc.report import cite
from mechc.report.datasheet import mathml
from mechc.report.plot import bars, chords, outputs, power_of_ten

VOID = {"meta", "br", "path", "use", "line"}


class Balanced(HTMLParser):
    """Collects tags that are never closed, text and links."""

    def __init__(self):
        super().__init__()
        self.open, self.words, self.links = [], [], []

    def handle_starttag(self, tag, attrs):
        self.links += [v for k, v in attrs if k in ("src", "href") and not v.startswith("#")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


@pytest.mark.few(0, 2)
@pytest.mark.parametrize("name", ["laplace", "discrete_laplace", "randomized_response", "gumbel"])
def test_datasheet_is_whole_and_needs_no_network(name, tmp_path):
    path = mechc.load(name).report(tmp_path / "sheet.html", certificate="none")
    page = Balanced()
    page.feed(path.read_text("utf-8"))
    assert page.open == [] and page.links == []
    words = "".join(page.words)
    first = ("Dominating pair", "assumed: ", "No certificate")
    for expected in (name, *first, "privacy loss", "def loss("):
        assert expected in words
    assert path.read_text("utf-8").count("<svg") == 3


def test_outputs_with_an_index_are_not_drawn(tmp_path):
    shuffle = mechc.load("shuffle")
    page = shuffle.report(tmp_path / "sheet.html", certificate="none").read_text("utf-8")
    assert page.count("<svg") == 1
    with pytest.raises(UnsupportedError, match="an index besides"):
        shuffle(users=1000, epsilon=1.0).plot(kind="densities")


def test_runs_without_losses_or_densities_are_drawn_or_refused_in_words():
    (axes,) = mechc.compose().plot(kind="loss").axes
    (line,) = axes.collections[0].get_segments()
    assert line.tolist() == [[0.0, 0.0], [0.0, 1.0]]
    mechc.load("uniform")(halfwidth=0.4).plot(kind="loss")  # all of it is infinite
    with pytest.raises(DeclarationError, match="or of a table"):
        mechc.from_pmfs([0.5, 0.5], [0.2, 0.8]).plot(kind="densities")


def test_datasheet_refuses_unknown_parameters_and_leaves_no_file(laplace, tmp_path):
    with pytest.raises(DeclarationError, match="scal"):
        laplace.report(tmp_path / "sheet.html", scal=3.0)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("scale", [1e-9, 1.0, 500.0, 1e9])
def test_figures_show_where_the_mass_is(laplace, scale):
    x = outputs(laplace.kernel, np.array([scale, scale / 2]))
    left_out = np.exp(x[0] / scale) / 2  # mass of Laplace(0, scale) below x[0]
    assert 2e-4 < left_out < 5e-3


def test_figures_of_integers_show_where_the_mass_is_by_few_of_them():
    for sigma in (0.3, 1e6):
        x = outputs(mechc.load("discrete_gaussian").kernel, np.array([sigma, 1.0]))
        assert 1e-5 < norm.cdf((x[0] - 1) / sigma) < 5e-3 or (sigma < 1 and -2 <= x[0] <= 0)
        assert x.size < 2000 and (x == np.round(x)).all()


def test_figures_of_a_density_with_a_pole_show_where_the_mass_is():
    """exp(-x) / sqrt(pi x), infinite at 0, with its 95 % quantile at 1.92."""

    def log_density(x, theta, out):
        with np.errstate(all="ignore"):
            out[:] = np.where(x < 0.0, -np.inf, -x - 0.5 * np.log(np.pi * np.abs(x)))

    kernel = SimpleNamespace(
        branches=lambda theta: np.array([[0.0, np.inf, 0.0, 0.0, 0.0, 0.0]]),
        breakpoints=lambda theta: np.array([0.0, np.inf]), atoms=lambda theta: np.empty((0, 3)),
        log_p_many=log_density, log_q_many=log_density, MEASURE=Measure.DENSITY,
    )  # fmt: skip
    x = outputs(kernel, np.empty(0))
    assert 0.0 <= x[0] < 0.1 and 1.92 < x[-1] < 20.0


@pytest.mark.few(2)
@pytest.mark.parametrize("kind", ["profile", "tradeoff", "steps"])
def test_plots_of_a_run(gaussian, kind, tmp_path):
    run = 20 * gaussian(sigma=10.0)
    path = tmp_path / "figure.png"
    figure = run.plot(path, kind=kind, counts=[1, 2, 5], delta=1e-3)
    assert path.read_bytes().startswith(b"\x89PNG")
    (curve, *_) = figure.axes[0].lines
    x, y = curve.get_xdata(), curve.get_ydata()
    if kind == "profile":
        mu = np.sqrt(20) / 10  # twenty steps are one Gaussian step
        exact = norm.cdf(mu / 2 - y / mu) - np.exp(y) * norm.cdf(-mu / 2 - y / mu)
        seen = y > 0  # between the points that were asked for too
        assert np.all(exact[seen] <= x[seen] * (1 + 1e-9)) and np.all(exact[seen] > 0.8 * x[seen])
        assert curve.get_drawstyle() == "default" and np.all(np.diff(y) <= 0.0)
    if kind == "tradeoff":
        assert y[0] == 1.0 and np.all(np.diff(y) <= 1e-12)
    with pytest.raises(DeclarationError, match="kind='pie'"):
        run.plot(kind="pie")
    with pytest.raises(UnsupportedError, match="cannot write"):
        run.plot(tmp_path / "nowhere" / "figure.png", kind=kind, counts=[1])


@pytest.mark.few(1)
@pytest.mark.parametrize("rate", [1.0, 0.1])
def test_a_drawn_trade_off_is_proven_between_its_corners_too(gaussian, rate):
    """Chords of a convex curve are above it, where an attacker is stronger than drawn."""
    run = 30 * mechc.poisson(gaussian, rate)(sigma=5.0)
    (curve, *_) = run.plot(kind="tradeoff").axes[0].lines
    x, y = curve.get_xdata()[1:], curve.get_ydata()[1:]
    rates = np.array([2e-5, 3.3e-4, 0.0123, 0.21, 0.5, 0.77, 0.945, 0.99991])
    truth = run.tradeoff(rates)
    drawn = np.interp(rates, x, y)
    assert np.all(drawn <= truth.upper)
    assert np.all(drawn >= truth.lower - 2e-3)


def test_a_run_is_drawn_from_its_first_step_to_its_last(gaussian):
    run = 1000 * gaussian(sigma=50.0)
    (curve, *_) = run.plot(kind="steps").axes[0].lines
    x, y = curve.get_xdata(), curve.get_ydata()
    assert (x[0], x[-1]) == (1, 1000) and curve.get_drawstyle() == "steps-pre"
    assert y[-1] == pytest.approx(run.epsilon(1e-5).upper, rel=1e-9)


def test_a_method_that_is_asked_for_every_count_is_asked_at_few(gaussian):
    run = 4000 * mechc.poisson(gaussian, 0.01)(sigma=2.0)
    ours, theirs = run.plot(kind="steps", methods=["auto", "renyi"]).axes[0].lines
    assert len(theirs.get_xdata()) <= 20 < len(ours.get_xdata())
    assert ours.get_xdata()[-1] == theirs.get_xdata()[-1] == 4000


def test_densities_beside_others_are_drawn_whole(gaussian, laplace):
    (axes,) = gaussian(sigma=1.0).plot(kind="densities", beside={"l": laplace(scale=0.5)}).axes
    low, high = axes.get_ylim()
    assert low == 0.0 and high >= 1.0  # the peak of Laplace noise is 1 / (2 scale)


def test_a_deep_profile_is_marked_at_round_powers(gaussian):
    (axes,) = (30 * gaussian(sigma=20.0)).plot(smallest=1e-300).axes
    powers = np.log10(axes.get_xticks())
    assert np.allclose(powers, 10.0 * np.rint(powers / 10.0)) and 5 <= powers.size <= 12


def test_cite_names_mechanisms_and_the_methods_that_answered(laplace):
    run = 3 * laplace(scale=7.0)
    assert "gopi2021numerical" not in run.cite()
    run.delta(0.1, method="prv")
    run.delta(0.1, method="saddlepoint:moments")
    entries = run.cite()
    keys = ("mechc", "dwork2006calibrating", "zhu2022optimal", "gopi2021numerical")
    for key in (*keys, "alghamdi2023saddle"):
        assert f"{{{key}," in entries
    assert entries.count("{") == entries.count("}")


def test_every_key_that_is_used_has_an_entry():
    known = cite.references()
    assert all(entry.rstrip().endswith("}") for entry in known.values())
    keys = {key for method in mechc.methods() for key in method.refs}
    for name in mechc.available():
        keys.update(mechc.load(name).declaration.refs)
    assert keys - set(known) == set()
    assert all(line.endswith(".") for line in cite.lines(keys))


def test_a_profile_reaches_far_down_and_compares_runs(gaussian, tmp_path):
    run, other = 30 * gaussian(sigma=23.14), 30 * gaussian(sigma=30.0)
    path = tmp_path / "profile.svg"
    asked_for = {"label": "Gaussian", "beside": {"more noise": other}, "target": 3}
    figure = run.plot(path, smallest=1e-300, **asked_for)
    first, second = (line for line in figure.axes[0].lines if line.get_label()[0] != "_")
    for drawn, asked in ((first, run), (second, other)):
        x, y = drawn.get_xdata(), drawn.get_ydata()
        assert x[0] == pytest.approx(1e-300, rel=1e-9)
        assert np.all(asked.log_delta(y[y > 0]).lower <= np.log(x[y > 0]) + 1e-9)
    words = {text.get_text() for text in figure.axes[0].texts}
    assert {"Gaussian", "more noise", "target 3"} <= words
    assert path.read_text("utf-8").startswith("<?xml")
    assert figure._repr_svg_() == run.plot(smallest=1e-300, **asked_for)._repr_svg_()


@pytest.mark.slow
def test_a_trade_off_on_log_axes_is_proven(gaussian):
    run = 30 * gaussian(sigma=20.0)
    (curve, *_) = run.plot(kind="tradeoff", log=True).axes[0].lines
    x, y = curve.get_xdata(), curve.get_ydata()
    truth = run.tpr(x)
    assert np.all(y >= truth.lower * (1 - 1e-9)) and np.all(y <= truth.upper * 1.01 + 1e-9)


def test_the_law_of_the_loss_is_drawn_with_its_mass(gaussian):
    run = 9 * gaussian(sigma=3.0)  # a normal loss of mean 1/2 and variance 1
    (curve,) = run.plot(kind="loss").axes[0].lines
    x, y = curve.get_xdata(), curve.get_ydata()
    assert np.allclose(y, norm.pdf(x, 0.5), atol=0.01)
    assert np.sum(y) * (x[1] - x[0]) == pytest.approx(1.0, abs=1e-3)


def test_point_masses_of_one_step_are_drawn_as_masses(laplace):
    """Losses of discrete Laplace noise are a and -a, of Laplace noise 1 and -1 with half a mass."""
    (axes,) = mechc.load("discrete_laplace")(a=0.5).plot(kind="loss").axes
    share = 1 / (1 + math.exp(-0.5))
    tops = {tuple(line[1]) for lines in axes.collections for line in lines.get_segments()}
    for place, mass in ((0.5, share), (-0.5, 1 - share)):
        assert any(np.allclose(top, (place, mass), rtol=1e-12) for top in tops)
    assert not axes.lines and axes.get_ylabel() == "mass"
    (axes,) = laplace(scale=1.0).plot(kind="loss").axes
    assert axes.get_ylabel() == "density; of lines, mass"
    (curve,) = axes.lines  # exp(-(1 + loss)/2)/4 between
    x, y = curve.get_xdata(), curve.get_ydata()
    inside = np.abs(x) < 0.9
    assert np.allclose(y[inside], np.exp(0.5 * (x[inside] - 1)) / 4, rtol=1e-3)
    assert y[np.abs(x) > 1.01].max() < 1e-6


def test_figures_into_axes_of_ones_own_and_what_is_refused(gaussian, laplace):
    figure = gaussian(sigma=1.0).plot(kind="densities")
    (axes,) = figure.axes
    drawn = len(axes.lines)
    assert gaussian(sigma=2.0).plot(kind="densities", ax=axes, label="wide") is axes
    assert len(axes.lines) == drawn + 2
    run = 2 * laplace(scale=3.0)
    names = ["auto", "renyi", "clt"]
    methods = run.plot(kind="steps", methods=names, counts=[1, 5], epoch=2).axes[0]
    assert [line.get_label() for line in methods.lines] == [*names[:2], "clt (estimate)"]
    assert methods.get_xlabel() == "epochs" and "10^{-5}" in methods.get_ylabel()
    for words in ({"kind": "profil"}, {"smallest": 1e-320}, {"epoch": 0}, {"kind": "densities"}):
        with pytest.raises(DeclarationError):
            run.plot(**words)


def test_many_long_names_are_all_read_and_no_two_curves_look_alike(gaussian):
    runs = {
        f"noise calibrated to a standard deviation of {s}": gaussian(sigma=s) for s in range(2, 9)
    }
    figure = gaussian(sigma=1.0).plot(
        kind="densities", label="the narrowest of them all", beside=runs
    )
    (axes,), (legend,) = figure.axes, figure.legends
    looks = {
        (line.get_color(), str(line.get_linestyle()), repr(line._dash_pattern))
        for line in axes.lines
    }
    assert len(looks) == len(axes.lines) == len(legend.get_texts()) == 16
    figure.draw_without_rendering()
    assert not legend.get_window_extent().overlaps(axes.get_tightbbox())
    assert figure.bbox.padded(1.0).y0 <= legend.get_window_extent().y0


@pytest.mark.slow
def test_names_stand_beside_their_own_curve(gaussian):
    runs = [30 * gaussian(sigma=s) for s in (5.0, 8.0, 13.0)]
    beside = {"less noise": runs[1], "least of all": runs[2]}
    figure = runs[0].plot(kind="tradeoff", label="most noise", beside=beside)
    (axes,) = figure.axes
    figure.draw_without_rendering()
    names = {text.get_text(): text for text in axes.texts}
    for line in axes.lines[::-1]:
        if line.get_label()[0] == "_":
            continue
        text = names[line.get_label()]
        at = axes.transAxes.transform(text.get_position())
        distance = {
            other: np.hypot(*(other.get_transform().transform(other.get_xydata()) - at).T).min()
            for other in axes.lines
        }
        assert min(distance, key=distance.get) is line and text.get_color() == line.get_color()


@pytest.mark.slow
def test_titles_of_neighbours_do_not_meet(gaussian):
    from matplotlib.figure import Figure

    run = 3 * gaussian(sigma=5.25) + gaussian(sigma=4.0) + 20 * gaussian(sigma=11.5, sensitivity=2)
    for words in ({}, {"layout": "constrained"}):
        figure = Figure(figsize=(9.0, 3.0), **words)
        both = figure.subplots(1, 2)
        for axes in both:
            run.plot(kind="loss", ax=axes)
        figure.draw_without_rendering()
        left, right = (axes.title.get_window_extent() for axes in both)
        assert not left.overlaps(right) and both[0].get_title().count("\n") <= 1
    long = mechc.poisson(gaussian)(sigma=1.1, sampling_rate=256 / 60_000)
    for one in (run, long):  # the whole of it is in the figure
        figure = one.plot(kind="loss")
        figure.draw_without_rendering()
        (left, _), (right, _) = figure.axes[0].title.get_window_extent().get_points()
        assert figure.bbox.x0 <= left and right <= figure.bbox.x1
    whole = run.plot(kind="loss").axes[0].get_title()
    assert whole.replace("\n", " ") == repr(run)


def test_outputs_of_a_finite_set_are_marks(gaussian):
    response = mechc.load("randomized_response")(epsilon=1.0, categories=4)
    (axes,) = response.plot(kind="densities").axes
    assert {line.get_linestyle() for line in axes.lines} == {"None"}
    assert axes.get_ylabel() == "mass"


def test_a_tournament_is_drawn(gaussian, laplace):
    found = mechc.tournament(target=(1.0, 1e-6), mechanisms=[gaussian, laplace])
    (axes,) = found.plot().axes
    assert [label.get_text() for label in axes.get_yticklabels()] == [e.name for e in found]
    deviations = axes.lines[0].get_xdata()
    assert list(deviations) == [e.errors["standard_deviation"] for e in found]


def test_a_legend_stays_inside_its_figure_whatever_the_names():
    figure = bars({"x" * 40: (1.0, 2.0, 3.0, 4.0)}, 4 * ["mean absolute error"])
    figure.draw_without_rendering()
    (legend,), inside = figure.legends, figure.bbox
    corners = legend.get_window_extent().corners()
    assert all(inside.contains(*corner) for corner in corners)


def test_the_figure_of_samplers_names_every_curve(tmp_path):
    """The script of docs/batches.md, with numbers that take no time."""
    script = Path(__file__).parents[2] / "docs" / "examples" / "batches.py"
    module = runpy.run_path(str(script))
    values = {name: [2.0 + place] * 8 for place, (name, _) in enumerate(module["SAMPLERS"])}
    module["figure"](values, tmp_path / "batches.svg")
    drawn = (tmp_path / "batches.svg").read_text("utf-8")
    assert all(name in drawn for name in values)


def test_what_matplotlib_cannot_draw_is_told_before(gaussian, tmp_path):
    from matplotlib.figure import Figure

    run = gaussian(sigma=2.0) * 3
    for projection in ("polar", "3d"):
        axes = Figure().add_subplot(projection=projection)
        with pytest.raises(DeclarationError, match=r"ax=.* with x and y"):
            run.plot(ax=axes)
    for how in ({"label": r"$\frac{$"}, {"beside": {"a $b_$": run}}):
        with pytest.raises(DeclarationError, match="no formula for matplotlib"):
            run.plot(**how)
    with pytest.raises(DeclarationError, match="log='x'"):
        run.plot(kind="tradeoff", log="x")
    named = mechc.from_pmfs([0.5, 0.5], [0.4, 0.6], name="a$b_$c")
    named.plot(tmp_path / "sheet.svg")
    run.plot(tmp_path / "names.svg", label=r"$\sigma = 2$", beside={"5$ and 6$": run * 2})


def test_chords_of_a_profile_are_above_it():
    epsilon = np.array([0.0, 0.0, 0.5, 2.0, np.inf])
    delta = norm.cdf(0.5 - epsilon) - np.exp(np.minimum(epsilon, 99)) * norm.cdf(-0.5 - epsilon)
    fine, drawn = chords(epsilon, np.nan_to_num(delta))
    seen = np.isfinite(fine)
    exact = norm.cdf(0.5 - fine[seen]) - np.exp(fine[seen]) * norm.cdf(-0.5 - fine[seen])
    assert np.all(drawn[seen] >= exact - 1e-15) and set(epsilon) <= set(fine)
    assert np.all(np.diff(drawn) <= 1e-15) and drawn[-1] == 0.0


def test_cases_of_a_formula_are_rows_of_a_table():
    x = sympy.Symbol("x")
    text = mathml(sympy.Piecewise((sympy.exp(-x), x < 0), (1, True)))
    assert text.count("<mtr>") == 2 and "otherwise" in text and "Exponential" not in text
    d = sympy.Symbol("Delta")
    assert mathml(x - d).replace("\n", "").index("x") < mathml(x - d).index("\u2212")


def test_ticks_below_the_smallest_double_have_no_label():
    """A datasheet of noise of sigma 1e300 ended in a ValueError."""
    assert [power_of_ten(value) for value in (1e-300, 1.0, 0.0)] == ["10⁻³⁰⁰", "10⁰", ""]


def test_a_figure_in_which_nothing_is_finite_says_so(laplace):
    run = 30 * mechc.load("exponential")(scale=20.0)  # every tenth removal is certain to be seen
    assert run.epsilon(1e-5).lower == np.inf
    (text,) = run.plot(kind="profile").legends[0].get_texts()
    assert "infinite" in text.get_text()
    both = run.plot(kind="steps", beside={"laplace": 30 * laplace(scale=20.0)})
    assert [t.get_text() for t in both.legends[0].get_texts()] == ["this run (infinite)", "laplace"]


@pytest.mark.slow
def test_the_law_of_a_unimodal_loss_is_drawn_with_one_mode():
    """Where answers of another method begin, 1e-4 of delta looked like a mode of its own."""
    axes = (30 * mechc.load("shuffle")(users=300, epsilon=1.0)).plot(kind="loss").axes[0]
    density = np.asarray(axes.lines[0].get_ydata())
    left = density[: density.argmax()]
    assert (np.maximum.accumulate(left) - left).max() < 0.01 * density.max()
