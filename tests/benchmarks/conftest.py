"""The app and the browser of the browser tests, once for all benchmarks: two of a session would not live side by side."""

import math
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page

from scripts.record_performance import ROWS
from tests.browser.conftest import CHROMIUM, FLAGS, PATIENCE_MS, app, browser, go, new_page, visit

ROOT = Path(__file__).resolve().parents[2]
__all__ = ["app", "browser", "visit"]
Losses = Callable[[Any], Any]  # of a model: the loss of each example
NOISE = 1.5  # bounds are those of two idle cores, with half as much again for noise
# `drawn(selector)`: milliseconds from the visit until what it names, also within an element, is on the screen.
DRAWN = """window.drawn = selector => new Promise(resolve => {
    const roots = () => [document, ...[...document.querySelectorAll('[data-testid=stBidiComponentIsolated]')]
        .flatMap(each => each.shadowRoot ?? [])];
    const look = () => requestAnimationFrame(roots().some(root => root.querySelector(selector))
        ? () => setTimeout(() => resolve(performance.now())) : look);
    look();
});"""


@pytest.fixture(autouse=True)
def within_budget(request: pytest.FixtureRequest) -> Iterator[None]:
    """Holds a benchmark to its budgets in `ROWS`; what it says it took in the browser goes before the benchmark's clock."""
    yield
    benchmark, row = request.node.funcargs["benchmark"], ROWS.get(request.node.name)
    if row is not None and row.budget is not None and benchmark.stats is not None:
        assert benchmark.extra_info.get("median", benchmark.stats.stats.median) < row.budget * NOISE
        assert row.worst is None or benchmark.extra_info["worst"] < row.worst * NOISE


@pytest.fixture(scope="session")
def context(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrowserContext]:
    """A visitor's browser, which keeps compiled scripts on the disk; a context of `browser` keeps none."""
    kept = browser.browser_type.launch_persistent_context(
        tmp_path_factory.mktemp("profile"), executable_path=CHROMIUM, args=FLAGS, viewport={"width": 1280, "height": 860}
    )
    kept.set_default_timeout(PATIENCE_MS)
    kept.add_init_script(DRAWN)
    yield kept
    kept.close()


def opened(browser: Browser, address: str) -> Page:
    """A page in a window of its own."""
    page = new_page(browser)
    go(page, address)
    return page


def seconds(ways: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """CPU seconds of each one's fastest round; they take turns, so that a busy machine slows all of them alike."""
    found = dict.fromkeys(ways, math.inf)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(rounds):
            for name, way in ways.items():
                started = time.process_time()
                way()
                found[name] = min(found[name], time.process_time() - started)
    return found


def opacus_step(module: Any, adam: Any, expected: float, *, is_ghost: bool, sigma: float = 1.0) -> Callable[..., None]:
    """A step of Opacus on inputs and targets as `make_private` sets it up, by hooks or by ghost clipping.

    The latter takes norms in a first backward pass, and the clipped sum in a second one.
    """
    from opacus import grad_sample, optimizers
    from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping
    from torch import nn

    options = {"noise_multiplier": sigma, "max_grad_norm": 1.0, "expected_batch_size": expected}
    loss: Any = nn.CrossEntropyLoss()
    if is_ghost:
        wrapped: Any = grad_sample.GradSampleModuleFastGradientClipping(module, max_grad_norm=1.0)
        optimizer: Any = optimizers.DPOptimizerFastGradientClipping(adam, **options)
        loss = DPLossFastGradientClipping(wrapped, optimizer, loss)
    else:
        wrapped, optimizer = grad_sample.GradSampleModule(module), optimizers.DPOptimizer(adam, **options)

    def step(inputs: object, targets: object) -> None:
        optimizer.zero_grad()
        loss(wrapped(inputs), targets).backward()
        optimizer.step()

    return step


def by_hooks(model: Any, parameters: list[Any], losses: Losses, clip: float) -> Callable[[], list[Any]]:
    """Clipped sums of each example's gradients by Opacus' hooks, as `make_private` sets them up by default."""
    from opacus.grad_sample import GradSampleModule

    wrapped = GradSampleModule(model, loss_reduction="sum", strict=False)

    def sums() -> list[Any]:
        for parameter in parameters:
            parameter.grad = parameter.grad_sample = None
        losses(wrapped).sum().backward()
        return clipped([parameter.grad_sample for parameter in parameters], clip)

    return sums


def by_ghost(model: Any, parameters: list[Any], losses: Losses, clip: float) -> Callable[[], list[Any]]:
    """The same by Opacus' ghost clipping: norms first, then a second backward pass of the weighted losses."""
    from opacus.grad_sample import GradSampleModuleFastGradientClipping

    wrapped = GradSampleModuleFastGradientClipping(
        model, loss_reduction="sum", strict=False, max_grad_norm=clip, use_ghost_clipping=True
    )

    def sums() -> list[Any]:
        model.zero_grad()
        wrapped.enable_hooks()
        own = losses(wrapped)
        own.sum().backward(retain_graph=True)
        weights = wrapped.get_clipping_coef()
        model.zero_grad()
        wrapped.disable_hooks()
        (weights * own).sum().backward()
        return [parameter.grad for parameter in parameters]

    return sums


def clipped(grads: list[Any], clip: float) -> list[Any]:
    """The clipped sums of per-example gradients [n, ...]."""
    lengths = sum(part.flatten(1).square().sum(1) for part in grads).sqrt()
    weights = (clip / (lengths + 1e-6)).clamp(max=1)
    return [(weights @ part.flatten(1)).view(part.shape[1:]) for part in grads]


def timed(preset: str, *kinds: str) -> tuple[float, list[str]]:
    """Seconds from the start of a process until one seed of a preset says the first event of these kinds, and what it says.

    A process of its own, as a worker is: how threads wait is settled before torch is loaded.
    """
    code = (
        "from dataclasses import replace\nfrom dpcl_core import presets\nfrom dpcl_core.runs.worker import real_engine\n"
        f"spec = presets.load({preset!r})\nfor event in real_engine(replace(spec, seeds=spec.seeds[:1]), 'cpu'):\n"
        f"    if type(event).__name__ in {kinds!r}: print(type(event).__name__, flush=True)\n"
    )
    started = time.perf_counter()
    with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == f"{kinds[0]}\n"
        first = time.perf_counter() - started
        rest = process.stdout.read().split()
    assert process.returncode == 0
    return first, [kinds[0], *rest]
