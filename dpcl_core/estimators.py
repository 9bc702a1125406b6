"""Private classifiers for programs that use scikit-learn, `DPCosineClassifier` and `DPHeadEnsemble`: `fit` and `predict`."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from numbers import Integral, Real
from typing import Any, Literal, Self, cast
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import check_is_fitted, validate_data

from dpcl_core.data import handed
from dpcl_core.errors import BadInput
from dpcl_core.events import CellFinished, Guarantee, Planned
from dpcl_core.methods.common.classifier import Step
from dpcl_core.methods.features import rules
from dpcl_core.methods.features.cosine import CosineParams
from dpcl_core.methods.features.linear_heads import fresh
from dpcl_core.methods.features.params import Rule
from dpcl_core.methods.features.peft_ensemble import EnsembleParams
from dpcl_core.methods.features.process_pool import Job
from dpcl_core.privacy import statement
from dpcl_core.privacy.accounting import noise_multiplier
from dpcl_core.privacy.budgets import check_accounted, check_budget, for_a_row, smallest_delta
from dpcl_core.privacy.card_document import Card, document
from dpcl_core.privacy.continual import shrunk
from dpcl_core.privacy.guarantee import guarantee
from dpcl_core.privacy.labels import spend_on_read_list
from dpcl_core.privacy.ledger import Entry, Ledger, joint_release, ledger_entries
from dpcl_core.privacy.mechanisms import class_sums_std, noisy_class_sums
from dpcl_core.privacy.noise import Noise, noise_of
from dpcl_core.runs import spend
from dpcl_core.spec import Adjacency, Cell, DataSpec, Params, PrivacySpec, RunSpec, ScenarioSpec, validated

_FIXED = ("delta", "labels", "adjacency", "disjoint_people", "rows_per_person")  # what all calls of one model share
_ALLOWED: dict[str, tuple[object, ...]] = {
    "labels": ("declared", "data"), "adjacency": ("add-remove", "replace"), "disjoint_people": (False, True),
}  # fmt: skip
_DISJOINT = "no person has rows in two calls: so whoever made them declares, and nothing checks it"
_DIVIDED = "which call a row was handed to depends on that row alone: so whoever made the calls declares"
_LIMITS = ("predictions for the training rows and scores on them: they are computed without noise",)


@dataclass(frozen=True, repr=False, eq=False)
class Privacy:
    """What is promised to those whose rows were learned. Printed, it is the statement in full.

    `entries`: the ledger, one entry for each mechanism; `account`: all that was fitted on the data of the same name.
    """

    guarantee: Guarantee
    entries: tuple[Entry, ...]
    account: spend.Account
    adjacency: Adjacency

    @property
    def epsilon(self) -> float:
        """Epsilon of this model so far; inf: no bound."""
        return self.guarantee.epsilon

    @cached_property
    def epsilon_of_all(self) -> float:
        """Epsilon of all releases on the data of this name together, this model's among them, at the same delta."""
        return self.account.epsilon(self.guarantee.delta, self.adjacency)

    def __repr__(self) -> str:
        given = self.guarantee
        said = f"epsilon {given.epsilon:.4g}, delta {given.delta:g}, for {given.unit}"
        return f"<Privacy: {said}; data {self.account.data_id!r}>"

    def __str__(self) -> str:
        asked = self.guarantee.claimed_epsilon or 0.0
        return statement.text({asked: self.guarantee}) + self.account.sentence(self.guarantee.delta, self.adjacency)

    def _repr_html_(self) -> str:
        from dpcl_core.figures import html

        said, spent = statement.guarantee_words(self.guarantee), self.account.sentence(self.guarantee.delta, self.adjacency)
        return html.cell("What is protected", None, [said.banner or said.headline, said.odds], spent)


@dataclass(frozen=True, slots=True, eq=False)
class _Task:
    """A call: its rows that count [n, K], the place of each one's label in `known`, and where this task's labels are there.

    `known`: all labels so far. `n_rows`: how many rows were handed in, which is public.
    """

    rows: NDArray[np.float64]
    places: NDArray[np.int64]
    known: NDArray[Any]
    space: NDArray[np.int64]
    n_rows: int
    is_first: bool
    index: int
    cell: Cell
    release: spend.Release
    ledger: Ledger


class _Learned:
    """What a classifier has after its calls; `sums_` of cosine classifiers, `members_` of ensembles."""

    classes_: NDArray[Any]
    sums_: NDArray[np.float64]
    members_: tuple[tuple[NDArray[Any], NDArray[np.floating]], ...]
    _shrunk: NDArray[np.float64]
    _cell: Cell
    _ledger: Ledger
    _stream: str | None
    _fixed: tuple[object, ...]
    _sizes: tuple[int, ...]
    _lists: tuple[tuple[object, ...], ...]


@dataclass(kw_only=True, repr=False, eq=False)
class PrivateClassifier(_Learned, ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """What private classifiers share: a call is one task, one mechanism, and one entry in the account of its data."""

    epsilon: float = 1.0
    delta: float = 1e-5
    classes: Sequence[object] | None = None
    labels: Literal["declared", "data"] = "declared"
    adjacency: Adjacency = "add-remove"
    disjoint_people: bool = False
    rows_per_person: int = 1
    data_id: str | None = None
    random_state: int | None = None

    def _settings(self) -> tuple[str, Params]:
        """The method's name and its own settings. Raises BadInput."""
        raise NotImplementedError

    def _planned(self, params: Params, privacy: PrivacySpec) -> spend.Release:
        """What a call will release, with the budget of one row."""
        raise NotImplementedError

    def _train(self, task: _Task) -> None:
        """Releases what a call learns, through a mechanism that writes into the ledger."""
        raise NotImplementedError

    def released(self) -> tuple[str, list[Step]]:
        """The rule by which what was released classifies, and all that this rule reads; classes are named by their place."""
        raise NotImplementedError

    def _scores(self, X: NDArray[np.float64]) -> NDArray[np.floating]:
        """Scores [n, classes] of rows [n, K]; -inf for a class of which nothing was released."""
        rule, steps = self.released()
        return cast("NDArray[np.floating]", getattr(rules, rule)(steps, X))

    def _names(self) -> tuple[str, ...]:
        return tuple(map(str, range(len(self.classes_))))

    def fit(self, X: Any, y: Any, groups: Any = None) -> Self:
        """Forgets what was learned and learns all rows X [n, K] with labels y [n]. Raises BadInput.

        `groups` [n]: the person of each row, who is then protected.
        """
        return self._learn(X, y, None, groups, is_first=True)

    def partial_fit(self, X: Any, y: Any, classes: Sequence[object] | None = None, groups: Any = None) -> Self:
        """Learns one more task: rows X [n, K] with labels y [n], as `fit` takes them. Raises BadInput.

        `classes`: the labels of this task, new ones among them, which are public; None: all that were declared so far.
        """
        return self._learn(X, y, classes, groups, is_first=not hasattr(self, "_ledger"))

    def predict(self, X: Any) -> NDArray[Any]:
        """The class [n] with the largest score for each row of X [n, K]."""
        check_is_fitted(self, "_ledger")
        return cast("NDArray[Any]", self.classes_[self._scores(self._rows(X, reset=False)).argmax(axis=1)])

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Softmax [n, classes] of the scores: it orders classes as `predict` does, and says not how often it is right."""
        check_is_fitted(self, "_ledger")
        scores = self._scores(self._rows(X, reset=False)).astype(np.float64)
        best = scores.max(axis=1, keepdims=True)
        weights = np.exp(scores - np.where(np.isfinite(best), best, 0.0))
        weights[~np.isfinite(best[:, 0])] = 1.0  # nothing is known of any class
        return cast("NDArray[np.float64]", weights / weights.sum(axis=1, keepdims=True))

    @property
    def privacy_(self) -> Privacy:
        """The statement, the ledger, and what all models on the data of the same name have spent."""
        check_is_fitted(self, "_ledger")
        return Privacy(self._guarantee(), tuple(self._ledger.entries), spend.account(self.data_id), self._ledger.adjacency)

    @property
    def card_(self) -> Card:
        """The privacy card, which `dpcl verify` checks once it is saved."""
        check_is_fitted(self, "_ledger")
        cell, written = self._cell, ledger_entries(self._ledger)
        joint, delta = joint_release([{cell: self._ledger}])
        plan = Planned(joint, delta, self._n_people(), len(self._sizes), ((cell,),), ((cell.epsilon, written),))
        finished = CellFinished(cell, {}, self._guarantee(), 0.0, written)
        return document("", self._settings()[0], self._spec.data.dataset, [finished], plan)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.non_deterministic = self.random_state is None and self.epsilon != math.inf
        return tags

    def __getstate__(self) -> dict[str, Any]:
        """Parameters and what was released. A copy's further calls may hold the same people as the original's."""
        return {**super().__getstate__(), "_stream": None}

    def _learn(self, X: Any, y: Any, classes: Sequence[object] | None, groups: Any, *, is_first: bool) -> Self:
        fixed, (_, params) = self._checked(is_first, groups is not None), self._settings()
        rows = self._rows(X, reset=is_first)
        labels = handed.labels_of(y, "y", self.labels == "declared")
        people = None if groups is None else handed.labels_of(groups, "groups", True)
        check_consistent_length(rows, labels, people)
        if self.delta >= 1 / len(rows):
            raise BadInput("delta", self.delta, f"must be below 1/{len(rows)}, one over the number of rows")
        known, listed = self._listed(labels, classes, is_first)
        most, cell = int(self.rows_per_person), Cell(float(self.epsilon), int(self.random_state or 0))
        asked = PrivacySpec(epsilons=(cell.epsilon,), delta=float(self.delta), adjacency=self.adjacency)
        release = replace(self._planned(params, for_a_row(asked, most)), rows=0 if people is None else most)
        is_bounded = self.random_state is None and self.labels == "declared"
        stream = None if not self.disjoint_people else uuid4().hex if is_first or self._stream is None else self._stream
        spend.charge(self.data_id, release if is_bounded else replace(release, sigma=0.0), stream)

        # From here on rows are read: what they hold refuses nothing and warns of nothing, but where labels are no secret.
        task = 0 if is_first else len(self._sizes)
        ledger = Ledger(self.delta, self.adjacency, "once" if self.disjoint_people else "every", rows_per_unit=most)
        ledger.entries = [] if is_first else [*self._ledger.entries]
        if self.labels == "data":
            known = listed = handed.joined_names(known, handed.read_labels(labels))
            spend_on_read_list([ledger], task=task)
        space = np.searchsorted(known, listed)
        places = handed.places_of(labels, known)
        used = np.flatnonzero(np.isin(places, space))
        if people is not None:
            used = used[handed.counted_rows(rows[used], places[used], people[used], most)]
        self._train(_Task(rows[used], places[used], known, space, len(rows), is_first, task, cell, release, ledger))
        self.classes_, self._cell, self._ledger, self._stream, self._fixed = known, cell, ledger, stream, fixed
        self._sizes = (len(rows),) if is_first else (*self._sizes, len(rows))
        self._lists = (tuple(listed.tolist()),) if is_first else (*self._lists, tuple(listed.tolist()))
        return self

    def _noise(self, task: _Task) -> Noise:
        """The source of a call's noise: it has no state that a copy could take along."""
        return noise_of("release" if self.random_state is None else "seeded", task.cell, f"call {task.index + 1}")

    def _checked(self, is_first: bool, has_people: bool) -> tuple[object, ...]:
        """The settings that all calls of a model share. Raises BadInput for the first one that is not allowed."""
        for name, allowed in _ALLOWED.items():
            if not isinstance(getattr(self, name), str | bool | np.bool_) or getattr(self, name) not in allowed:
                raise BadInput(name, getattr(self, name), f"must be one of {', '.join(map(repr, allowed))}")
        for name in ("epsilon", "delta"):
            if not isinstance(getattr(self, name), Real) or isinstance(getattr(self, name), bool):
                raise BadInput(name, getattr(self, name), "must be a number above 0")
        if self.epsilon != math.inf:
            check_budget(self.epsilon)
        check_accounted(self.delta)
        spend.checked_name(self.data_id)
        whole = {"random_state": (self.random_state or 0, 0), "rows_per_person": (self.rows_per_person, 1)}
        for name, (value, least) in whole.items():
            if not isinstance(value, Integral) or not least <= int(value) < 2**32:
                raise BadInput(name, value, f"must be a whole number of at least {least}")
        if self.rows_per_person > 1 and not has_people:
            raise BadInput("rows_per_person", self.rows_per_person, "needs groups, which say whose each row is")
        if self.epsilon < math.inf and self.delta < smallest_delta(self.epsilon, int(self.rows_per_person)):
            raise BadInput("rows_per_person", self.rows_per_person, "is too many for this epsilon and delta: take fewer")
        now = (*(getattr(self, name) for name in _FIXED), has_people)
        if not is_first and now != self._fixed:
            names = (*_FIXED, "groups")
            at = next(place for place, one in enumerate(now) if one != self._fixed[place])
            raise BadInput(names[at], now[at], "was another in the first call: fit anew to change it")
        return now

    def _rows(self, X: Any, *, reset: bool) -> NDArray[np.float64]:
        """The rows [n, K]. Refused is only what types, names and shapes show."""
        return np.asarray(validate_data(self, handed.table_of(X), reset=reset, dtype=np.float64, ensure_all_finite=False))

    def _listed(
        self, labels: NDArray[Any], classes: Sequence[object] | None, is_first: bool
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """All labels that were declared so far, and those of this call, both ascending."""
        parts = [handed.declared_names(one) for one in (self.classes, classes) if one is not None]
        parts += [] if is_first else [self.classes_]
        if not parts and self.labels == "declared":
            allowed = "must be the list of all labels, which is public; or set labels='data', which protects nobody"
            raise BadInput("classes", None, allowed)
        if not parts:
            return labels[:0], labels[:0]
        known = reduce(handed.joined_names, parts)
        if self.labels == "declared" and labels.dtype.kind != "O" and handed.is_text(labels) != handed.is_text(known):
            raise BadInput("y", str(labels.dtype), "must hold labels of the kind that classes are: texts or numbers")
        return known, known if classes is None else handed.declared_names(classes)

    @property
    def _spec(self) -> RunSpec:
        """The settings as those of a run."""
        ledger, is_one_list = self._ledger, len({*self._lists}) == 1
        privacy = PrivacySpec(
            epsilons=(self._cell.epsilon,), delta=ledger.delta, adjacency=ledger.adjacency,
            noise="release" if self.random_state is None else "seeded",
        )  # fmt: skip
        method, params = self._settings()
        return RunSpec(
            method=method, params=params, privacy=privacy,
            labels="data" if self.labels == "data" else "prior-const" if is_one_list else "prior",
            data=DataSpec(dataset=f"own:{spend.checked_name(self.data_id)}"), scenario=ScenarioSpec(kind="calls"),
            seeds=(self._cell.seed,),
        )  # fmt: skip

    def _n_people(self) -> int:
        """The public number of people: in all calls where these hold different ones, else in the largest."""
        n_rows: int = sum(self._sizes) if self.disjoint_people else max(self._sizes)
        return max(1, n_rows // self._ledger.rows_per_unit)

    def _guarantee(self) -> Guarantee:
        unit = "person" if self._fixed[-1] else "example"
        return guarantee(
            self._ledger, self._spec, self._cell, unit=unit, n_people=self._n_people(), n_tasks=len(self._sizes),
            assumed=(_DIVIDED, *([_DISJOINT] if self.disjoint_people else [])), limits=_LIMITS,
        )  # fmt: skip


@dataclass(kw_only=True, repr=False, eq=False)
class DPCosineClassifier(PrivateClassifier):
    """The DP cosine classifier (Tobaben et al. 2025, Algorithm 1): a noisy sum of unit-length rows for each class.

    A row gets the class whose sum is closest in direction. `fit` learns all rows; `partial_fit` adds a task a call.
    Types, shapes and declarations are checked. A row with a missing or infinite number, or with a label that is not
    declared, is left out silently: an error would tell that somebody has such a row.

    Args:
        epsilon: the budget of a call, above 0; inf: no noise.
        delta: of each guarantee, below one over the number of rows.
        classes: all labels, which are public; or give them to `partial_fit`.
        labels: "declared", or "data": read from y, which protects nobody.
        adjacency: "add-remove" or "replace".
        disjoint_people: by your word, no person has rows in two calls. Otherwise every call may hold the same people, and
            calls add up.
        prediction: "added", or "by-stream": each call's sums are first shrunk as far as noise would explain them; for tasks
            that have a class each.
        rows_per_person: how many rows of a person count in a call, where `groups` says whose each row is: then persons are
            protected, else rows. Those with the smallest hash of their own bytes count.
        data_id: a name of the data. Everything fitted on one name adds up in one account, also copies, folds and searches.
            None: the one account of all data without a name.
        random_state: None for noise of the operating system. A whole number makes it repeatable, and protects nobody.

    Attributes: `classes_` [classes]; `sums_` [classes, K], the released sums; `privacy_`; `card_`.

    Errors are `BadInput`, a ValueError, in one sentence; those of shapes are scikit-learn's.

    >>> model = DPCosineClassifier(epsilon=1.0, classes=["no", "yes"]).fit([[0.0, 1.0], [1.0, 0.0]], ["no", "yes"])
    >>> model.privacy_.epsilon <= 1.0
    True
    """

    prediction: Literal["added", "by-stream"] = "added"

    def _settings(self) -> tuple[str, Params]:
        return "cosine", validated(CosineParams, {"prediction": self.prediction})

    def _planned(self, params: Params, privacy: PrivacySpec) -> spend.Release:
        return spend.Release(class_sums_std(privacy.epsilons[0], privacy.delta, privacy.adjacency), 0)

    def _train(self, task: _Task) -> None:
        std, space = task.release.sigma, [int(one) for one in task.space]
        (found,) = noisy_class_sums(
            task.rows, task.places, space, len(task.known), [std], [self._noise(task)], [task.ledger], task=task.index
        )
        sums, small = np.zeros_like(found), np.zeros_like(found)
        if not task.is_first:
            before = np.searchsorted(task.known, self.classes_)
            sums[before], small[before] = self.sums_, self._shrunk
        self.sums_, self._shrunk = sums + found, small + shrunk(found, std)

    def released(self) -> tuple[str, list[Step]]:
        is_shrunk = self.prediction == "by-stream" and self._shrunk.any()
        names = self._names()
        return "cosine", [Step({"sums": self._shrunk if is_shrunk else self.sums_}, names, names, {})]


@dataclass(kw_only=True, repr=False, eq=False)
class DPHeadEnsemble(PrivateClassifier):
    """Last layers trained by DP-SGD, a fresh one for each call, which vote (Tobaben et al. 2025, Algorithm 2).

    As `DPCosineClassifier`, whose arguments it shares; rows are best scaled to length 1 by a rule that reads no other row.
    Needs many rows: a step's noise is that of a batch.

    Args:
        epochs: how often each row is seen on average.
        sample_rate: chance that a row is in a batch (Poisson sampling).
        clip_norm: longest gradient that one row may contribute.
        learning_rate: of Adam.
        rule: how the members of all calls vote: "argmax", "median" or "entropy".

    Attributes: `classes_` [classes]; `members_`, the labels of each with its weights [labels, K+1]; `privacy_`; `card_`.
    """

    epochs: int = 40
    sample_rate: float = 0.1
    clip_norm: float = 1.0
    learning_rate: float = 0.003
    rule: Rule = "argmax"

    def _settings(self) -> tuple[str, Params]:
        names = ("epochs", "sample_rate", "clip_norm", "learning_rate", "rule")
        return "peft-ensemble", validated(EnsembleParams, {name: getattr(self, name) for name in names})

    def _planned(self, params: Params, privacy: PrivacySpec) -> spend.Release:
        assert isinstance(params, EnsembleParams)
        rate, n_steps, (epsilon,) = params.sample_rate, params.n_steps, privacy.epsilons
        sigma = 0.0 if math.isinf(epsilon) else noise_multiplier(epsilon, privacy.delta, rate, n_steps, privacy.adjacency)
        return spend.Release(sigma, 0, rate, n_steps)

    def _train(self, task: _Task) -> None:
        _, params = self._settings()
        assert isinstance(params, EnsembleParams)
        plan = params.schedule(task.n_rows)
        steps = plan.steps(task.release.sigma)
        task.ledger.spend(steps, task=task.index, what=plan.words)
        space, n_known = [int(one) for one in task.space], len(task.known)
        batches = steps.batches(self.random_state, f"call {task.index + 1}")
        start = fresh([space], task.rows.shape[1], n_known)
        job = Job(start, task.rows, task.places, plan, [steps.noise_multiplier], batches, [self._noise(task)])
        member = task.known[space], job.trained().weights[0]
        self.members_ = (member,) if task.is_first else (*self.members_, member)

    def released(self) -> tuple[str, list[Step]]:
        names, facts = self._names(), {"vote": self.rule, "one_space": len({*self._lists}) == 1}
        steps = []
        for labels, weights in self.members_:
            of_member = tuple(names[place] for place in np.searchsorted(self.classes_, labels))
            arrays = {"weights": weights.astype(np.float64), "labels": np.ones(len(labels), np.bool_)}
            steps.append(Step(arrays, of_member, names, facts))
        return "heads", steps
