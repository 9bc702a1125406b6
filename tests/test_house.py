"""The house: nothing imports upward, only pages import streamlit, the app imports no torch, printed numbers stand once."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from dpcl_core import published
from dpcl_core.methods import catalog as methods
from tests.support.waiting import python

ROOT = Path(__file__).resolve().parent.parent
# From the top floor to the ground: a module imports only from its own room and from rooms further down.
FLOORS = [
    "cli", "flower", "site", "api", "estimators", "export", "apart", "page", "classifiers", "elements", "results", "papers",
    "figures", "lessons", "runs", "tuning", "presets", "explorers", "attacks", "engine", "learning",
    "combinations", "checks", "methods", "methods.features", "methods.lifelong", "methods.language", "methods.federated",
    "methods.common", "backbones", "scenarios", "data", "privacy", "metrics", "events", "published", "spec",
    "fields", "machine", "unforeseen", "later", "paths", "documents", "arrays", "errors", "version",
]  # fmt: skip
FAMILIES = [name for name in FLOORS if name.startswith("methods.") and name != "methods.common"]
MODULES = sorted((ROOT / "dpcl_core").rglob("*.py"))
PAGES = [ROOT / "app.py", *sorted((ROOT / "pages").rglob("*.py"))]


def _module(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def room(name: str) -> str | None:
    """The floor a module is on; what every family shares and each family are floors of their own."""
    parts = name.split(".")
    if parts[0] != "dpcl_core" or len(parts) == 1:
        return None
    family = ".".join(parts[1:3])
    return family if family in FLOORS else parts[1]


@cache
def tree_of(path: Path) -> ast.Module:
    """What a file says, parsed once for all tests."""
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def statements(path: Path) -> list[tuple[str, set[str]]]:
    """Every import of a file, however late: a module, and what is taken out of it, as dotted names."""
    found: list[tuple[str, set[str]]] = []
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            found += [(alias.name, set()) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path}: relative import"
            found.append((node.module, {f"{node.module}.{alias.name}" for alias in node.names}))
    return found


@cache
def imported(path: Path) -> set[str]:
    """Every module a file imports, however late, as dotted names."""
    return {name for module, inner in statements(path) for name in {module, *inner}}


def needed(path: Path, modules: set[str]) -> set[str]:
    """The modules that a file names: of a package from which it imports modules alone, these, and not the package."""
    packages = {module for module, inner in statements(path) if not inner or inner - modules}
    return (packages | {name for _, inner in statements(path) for name in inner}) & modules


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_nothing_imports_upward(path: Path) -> None:
    own = room(_module(path))
    if own in (None, "__init__", "__main__"):
        return
    assert own in FLOORS, f"{own} has no floor: put it into the list, and into ARCHITECTURE.md"
    above = FLOORS[: FLOORS.index(own)]
    upward = {name for name in imported(path) if room(name) in above}
    assert not upward, f"{path} imports {upward} from above"


@pytest.mark.parametrize("family", FAMILIES)
def test_families_do_not_know_each_other(family: str) -> None:
    for path in (ROOT / "dpcl_core" / Path(*family.split("."))).rglob("*.py"):
        others = {name for name in imported(path) if room(name) in FAMILIES and room(name) != family}
        assert not others, f"{path} imports {others} of another family"


def test_commands_print_in_one_place() -> None:
    """It takes out what commands a terminal."""
    for path in (ROOT / "dpcl_core" / "cli").glob("*.py"):
        calls = [node for node in ast.walk(tree_of(path)) if isinstance(node, ast.Call)]
        printed = [call for call in calls if ast.unparse(call.func) in ("print", "sys.stdout.write") and call.args]
        assert not printed or path.name == "output.py", f"{path} prints by itself: use `put` or `say`"


def test_pages_look_into_no_method() -> None:
    """They ask figures, runs, results, explorers and cards, whose type is `MethodCard`, and a run's public sizes."""
    method = "dpcl_core.methods.common.method"
    shared = {method, *(f"{method}.{name}" for name in ("MethodCard", "PublicSizes", "of_spec"))}
    for path in PAGES:
        for name in imported(path):
            is_inside = any(name.startswith(f"dpcl_core.{floor}.") for floor in (*FAMILIES, "methods.common"))
            is_of_a_card = re.search(r"\.(cards|params|claim)\b", name) or name in shared
            assert not is_inside or is_of_a_card, f"{path} imports {name}"


# An attack plays one method, or several of a family: which of them it is decides what is planted and read off.
ATTACKS_THAT_TELL_METHODS_APART = {
    "play.py": 3,  # says what one training cannot audit of the families that `one_run` plays, and loads none of it
    # Leaves a head next to no work, whether the server trains it or clients do; a generator is another network than a head.
    "federated_games.py": 5,
    "language_games.py": 1,  # the loss of PeCL has a term more
}
# Branches on settings within their own family: what shared code there does with the parts that settings are made of.
BRANCHES_WITHIN = {"methods.features": 0, "methods.lifelong": 1, "methods.language": 3, "methods.federated": 8}


def classes_of_settings() -> dict[str, str]:
    """Every class of a method's settings or of a part of them, with the family that it belongs to."""
    bases: dict[str, set[str]] = {}
    families: dict[str, str] = {}
    for path in MODULES:
        family = room(_module(path))
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.ClassDef) and family in FAMILIES:
                bases[node.name] = {ast.unparse(base).rpartition(".")[2] for base in node.bases}
                families[node.name] = family
    found = {"Params"}
    while more := {name for name, own in bases.items() if own & found} - found:
        found |= more
    return {name: families[name] for name in found - {"Params"}}


def branches_on_settings(path: Path, kinds: dict[str, str]) -> list[str]:
    """Families whose settings a file asks after, one for each place; a bare `assert isinstance` decides nothing."""
    tree = tree_of(path)
    asserted = {id(node.test) for node in ast.walk(tree) if isinstance(node, ast.Assert)}
    asked: list[ast.AST] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("isinstance", "issubclass"):
            asked += [] if id(node) in asserted else [node.args[1]]
        elif isinstance(node, ast.MatchClass):
            asked.append(node.cls)
        elif isinstance(node, ast.Compare):  # type(params) is EnsembleParams
            asked.append(node)
    named = [{part.rpartition(".")[2] for part in re.findall(r"[\w.]+", ast.unparse(node))} & set(kinds) for node in asked]
    return [kinds[min(names)] for names in named if names]


def test_cards_decide_not_kinds_of_settings() -> None:
    """What a room must know of a method is a field or a function of its card: none asks which settings it holds."""
    kinds = classes_of_settings()
    assert len(kinds) > 30, "the count sees no settings"
    within = dict.fromkeys(FAMILIES, 0)
    for path in [*MODULES, *PAGES]:
        own = room(_module(path))
        asked = branches_on_settings(path, kinds)
        if own in FAMILIES:
            within[own] += asked.count(own)
            asked = [family for family in asked if family != own]
        allowed = ATTACKS_THAT_TELL_METHODS_APART.get(path.name, 0) if own == "attacks" else 0
        assert len(asked) <= allowed, f"{path} asks which settings it holds: ask the method's card"
    assert {name: within[name] for name in BRANCHES_WITHIN} == BRANCHES_WITHIN, "fewer is better: write the new number down"


def test_no_room_compares_a_methods_name() -> None:
    """Attacks apart, which play methods one by one."""
    for path in [*MODULES, *PAGES]:
        if room(_module(path)) in ("attacks", *FAMILIES):
            continue
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.Compare):
                literals = {part.value for part in ast.walk(node) if isinstance(part, ast.Constant)}
                assert not literals & set(methods.CARDS), f"{path}:{node.lineno} {ast.unparse(node)}: ask the method's card"


def test_no_circle_of_imports() -> None:
    """Late imports count too: a module that needs another to be there first cannot be read on its own."""
    named = {_module(path): path for path in MODULES}
    needs = {name: {module for module in needed(path, set(named)) if module != name} for name, path in named.items()}
    TopologicalSorter(needs).prepare()  # raises CycleError, which names the circle


@pytest.mark.parametrize(("package", "where"), [("streamlit", "dpcl_core"), ("torch", "dpcl_core/figures")])
def test_only_pages_import_streamlit_and_no_figure_torch(package: str, where: str) -> None:
    guilty = [path for path in (ROOT / where).rglob("*.py") if package in {name.split(".")[0] for name in imported(path)}]
    assert not guilty


def test_nothing_is_unpickled() -> None:
    forbidden = {"pickle", "joblib", "dill", "cloudpickle", "shelve", "marshal"}
    for path in MODULES:
        assert not {name.split(".")[0] for name in imported(path)} & forbidden, path
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                source = ast.unparse(node)
                if source.startswith(("np.load(", "numpy.load(")) or node.func.attr == "read_array":
                    assert "allow_pickle=False" in source, f"{path}: {source}"
                if source.startswith("torch.load"):  # one file of known SHA-256, read as tensors only
                    assert path.name == "timm_models.py", f"{path}: {source}"
                    assert "weights_only=True" in source, f"{path}: {source}"


def test_the_app_process_imports_no_torch() -> None:
    """Everything the app's pages import, imported: neither torch nor what brings it along may be there."""
    named = (name for page in PAGES for name in imported(page))
    modules = sorted(name for name in named if name.split(".")[0] in ("dpcl_core", "pages"))
    code = (
        "import importlib, sys\n"
        f"for name in {modules!r}:\n"
        "    try:\n"
        "        importlib.import_module(name)\n"
        "    except ModuleNotFoundError as error:\n"
        "        if error.name is None or not name.startswith(error.name): raise\n"  # a function, not a module
        "heavy = {'torch', 'timm', 'transformers', 'opacus', 'sentence_transformers'} & set(sys.modules)\n"
        "assert 'dpcl_core.runs.store' in sys.modules, 'the check imported nothing'\n"
        "assert not heavy, heavy\n"
    )
    python("-c", code)


HEAVY_DATA = "torch pyarrow sklearn huggingface_hub pandas PIL"
AVAILABLE = "for card in catalog.CARDS.values(): catalog.available(card)"


# What programs do not load, by what each does.
NOT_LOADED = {
    "import dpcl_core": "numpy pandas streamlit torch",
    "import dpcl_core as dpcl\nassert all(hasattr(dpcl, name) for name in dpcl.__all__)": "streamlit torch",
    "from dpcl_core.runs import process\nprocess.devices()": "torch",
    "import dpcl_core.runs.worker": "torch streamlit pandas dp_accounting plotly",
    # asked for often, and loading all that commands need takes a second
    **{f"from dpcl_core import cli\ntry: cli.main(['{option}'])\nexcept SystemExit: pass":
       "dpcl_core.checks dpcl_core.methods pydantic numpy" for option in ("--version", "--help")},
    "from dpcl_core import engine\nfrom dpcl_core.data import intake, load, understood": HEAVY_DATA,
    f"from dpcl_core.data import catalog\n{AVAILABLE}": HEAVY_DATA,
    "from dpcl_core import spec\nfrom dpcl_core.data import load\nload.load_dataset(spec.DataSpec())": HEAVY_DATA,
    f"from dpcl_core.backbones import catalog, extractor\n{AVAILABLE}\nextractor.load('pixels')\n"
    "extractor.load('convnext-cifar100').identity, extractor.load('convnext-cifar100').feature_dim":
        "torch timm torchvision sklearn transformers peft",
    "from dpcl_core.backbones import plain_language\nfrom dpcl_core.data.texts import Texts\n"
    "plain_language.load().log_probabilities(plain_language.read(Texts(['some text']), 'lm-tiny', 8)[:, :, 0])":
        "torch transformers peft",
    "from dpcl_core.papers import forecasts\n"
    "forecasts.expected(forecasts.Sizes(300, 4, 2, 'minilm', 384, 'dp-learned', 1e-5))": "torch",
    # what Start imports before it feeds the element
    "import pages.start\nfrom dpcl_core.elements import element\nelement.hero_document()":
        "torch scipy dp_accounting dpcl_core.figures.theme",
}  # fmt: skip


@pytest.mark.parametrize("program", NOT_LOADED)
def test_what_a_program_does_not_use_is_not_loaded(program: str) -> None:
    code = f"import sys\n{program}\nprint(sorted({set(NOT_LOADED[program].split())} & set(sys.modules)))"
    assert python("-c", code).splitlines()[-1] == "[]"


# What no module that a run without torch reaches names when it is imported. In a browser
# there is nothing of it, and in memory nothing needs it.
NOT_EVERYWHERE = {"pydantic", "pyarrow", "ssl", "threading", "multiprocessing", "concurrent", "subprocess"}
IN_MEMORY = """
import sys, threading
started = []
real = threading.Thread.start
threading.Thread.start = lambda thread: (started.append(thread), real(thread))
from dpcl_core import checks, engine
data = {"dataset": "digits", "train_per_class": 20, "test_per_class": 5}
raw = {"method": "cosine", "data": data, "privacy": {"epsilons": [1.0], "noise": "seeded"}, "seeds": [0]}
events = list(engine.run(checks.parse(raw)))
assert type(events[-1]).__name__ == "CellFinished"
assert not started and "torch" not in sys.modules, started
print(*[name for name in sys.modules if name.startswith("dpcl_core")])
"""


def test_a_run_in_memory_starts_no_thread_and_names_no_process() -> None:
    said = python("-c", IN_MEMORY).split()
    reached = [path for path in MODULES if _module(path) in said]
    assert len(reached) > 50
    for path in reached:
        left = at_import(path) & NOT_EVERYWHERE
        assert not left, f"{path} imports {left} at its top"


def at_import(path: Path) -> set[str]:
    """The packages that a module imports when it is imported itself: not those inside of functions, nor for types alone."""
    found: set[str] = set()
    waiting: list[ast.AST] = list(tree_of(path).body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.partition(".")[0])
        elif not isinstance(node, ast.FunctionDef) and "TYPE_CHECKING" not in ast.dump(getattr(node, "test", node)):
            waiting += ast.iter_child_nodes(node)
    return found


def test_every_method_is_one_file() -> None:
    """The card stands in the module that makes its learner."""
    for name, card in methods.CARDS.items():
        assert card.name == name
        assert f'"{name}"' in (ROOT / Path(*card.module.split("."))).with_suffix(".py").read_text(encoding="utf-8")


def test_every_room_is_in_the_architecture() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    for name in (floor.replace(".", "/") for floor in FLOORS):
        assert f"{name}.py" in text or f"{name}/" in text, f"{name} is not in ARCHITECTURE.md"


NAMED = re.compile(r"(?<![\w./{-])(?:[a-z_0-9]+/)+[a-z_0-9]+\.(?:py|mjs)\b")  # files, as texts and comments name them


def test_files_that_are_named_are_there() -> None:
    folders = [ROOT, *(ROOT / name for name in ("dpcl_core", "dpcl_core/methods", "pages", "assets"))]
    texts = [*MODULES, *PAGES, *(ROOT / "assets").rglob("*.mjs"), *ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    named = {(text, name) for text in texts for name in NAMED.findall(text.read_text(encoding="utf-8"))}
    assert len(named) > 100
    assert not [one for one in named if not any((folder / one[1]).exists() for folder in [*folders, one[0].parent])]


def test_a_figures_source_is_escaped_once() -> None:
    """Where its line is shown it is escaped as text; escaped before, a backslash would be shown."""
    for path in [*(ROOT / "pages").rglob("*.py"), ROOT / "dpcl_core" / "export.py"]:
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Provenance":
                assert "plain(" not in ast.unparse(node), f"{path}: {ast.unparse(node)}"


def test_no_learner_adds_noise_by_itself() -> None:
    """Draws that are not rounded with what they hide are for attacks, audits, lessons and replays of public data alone."""
    paths = (ROOT / "dpcl_core" / "methods").rglob("*.py")
    calls = [(path, node) for path in paths for node in ast.walk(tree_of(path)) if isinstance(node, ast.Call)]
    guilty = [f"{path}:{call.lineno}" for path, call in calls if getattr(call.func, "attr", "") in ("normal", "laplace")]
    assert not guilty, f"{guilty} draw noise themselves: releases go through Noise.added"


# Printed numbers live in `assets/published` alone: no module types again what a table prints.


PAPERS = sorted(path.stem for path in (ROOT / "assets" / "published").glob("*.csv"))
N_ALIKE = 3  # so many numbers of one column in one literal are a copy of it: fewer can meet by chance
_DECIMAL = re.compile(r"\d+\.\d+")


@cache
def printed_columns() -> dict[tuple[str, str, str], set[float]]:
    """What each table prints of each metric, by size, without whole numbers and those of one digit: they are too common."""
    found: dict[tuple[str, str, str], set[float]] = defaultdict(set)
    for paper in PAPERS:
        for row in published.read_numbers(paper):
            if row.value is not None and row.value % 1 and len(row.printed.strip("-0.").replace(".", "")) > 1:
                found[paper, row.table, row.metric].add(abs(row.value))
    return found


def literals(source: str) -> Iterator[set[float]]:
    """The numbers of every collection of constants and of every text but docstrings, one set for each."""
    tree = ast.parse(source)
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    docstrings = {id(node.body[0].value) for node in ast.walk(tree)
                  if isinstance(node, documented) and node.body and isinstance(node.body[0], ast.Expr)}  # fmt: skip
    for node in ast.walk(tree):
        if isinstance(node, (ast.Dict, ast.List, ast.Set, ast.Tuple)):
            inside = list(ast.walk(node))
            yield {abs(one.value) for one in inside if isinstance(one, ast.Constant) and isinstance(one.value, float)}
        elif isinstance(node, (ast.Constant, ast.JoinedStr)) and id(node) not in docstrings:
            texts = (one.value for one in ast.walk(node) if isinstance(one, ast.Constant) and isinstance(one.value, str))
            yield {float(number) for text in texts for number in _DECIMAL.findall(text)}


def copies(source: str) -> list[tuple[tuple[str, str, str], list[float]]]:
    """Every column of which a literal of the source holds several numbers, with these."""
    return [
        (column, sorted(numbers & printed)) for numbers in literals(source) for column, printed in printed_columns().items()
        if len(numbers & printed) >= N_ALIKE
    ]  # fmt: skip


def test_no_printed_number_is_typed_in_code_again() -> None:
    found = {str(path.relative_to(ROOT)): copies(path.read_text(encoding="utf-8")) for path in [*PAGES, *MODULES]}
    assert {path: own for path, own in found.items() if own} == {}


def test_a_copy_is_found() -> None:
    assert copies("NOISE = {1.0: 3.20, 4.0: 1.45, 8.0: 0.95}")
    assert copies("ABOUT = 'claims ε for noise multipliers 3.20, 1.45 and 0.95'")


def test_what_is_read_of_a_table_is_what_it_prints() -> None:
    assert published.by_budget("cslr", "5", "noise_multiplier") == {1.0: 3.2, 4.0: 1.45, 8.0: 0.95}
    assert published.by_budget("lifelong", "text", "noise_scale_z") == {4.0: 2.2, 7.0: 1.7, 10.0: 1.4}
    assert [value for _, value in published.rows_with("cslr", "8", "p_hat_gamma")] == [0.18, 0.31, 0.43, 0.46, 0.47]
