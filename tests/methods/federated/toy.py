"""Invented embeddings for tests: topics with a power-law spectrum, unit length, shared out among clients."""

from dataclasses import dataclass

import numpy as np

from dpcl_core.methods.federated.lists import Element, ListLearner, Lists

N_MODES, D, N_PUBLIC = 4, 32, 30


@dataclass(frozen=True)
class Toy:
    """Private rows of `N_MODES` topics, the public ones of others, and lists of every client with their true modes."""

    public: np.ndarray
    z: np.ndarray
    modes: np.ndarray
    users: np.ndarray

    def oracle(self, form: str = "diagonal") -> Lists:
        """Every client's list with each true mode once, in order."""
        n_users = int(self.users.max()) + 1
        return Lists.of([[self._element(user, mode, form) for mode in range(N_MODES)] for user in range(n_users)])

    def _element(self, user: int, mode: int, form: str) -> Element:
        own = self.users == user
        rows = self.z[own & (self.modes == mode)]
        covariance = np.cov(rows, rowvar=False, bias=True) + 1e-3 * np.eye(rows.shape[1])
        spread = np.diag(covariance) if form == "diagonal" else covariance
        return Element(len(rows) / own.sum(), rows.mean(axis=0), spread, np.eye(N_MODES)[mode])

    def fitted(self, seed: int = 0) -> Lists:
        """Every client's list as EM finds it."""
        learner, random = ListLearner(N_MODES, restarts=1), np.random.default_rng(seed)
        y = np.eye(N_MODES)[self.modes]
        users = range(int(self.users.max()) + 1)
        return Lists.of([learner.fit(self.z[self.users == user], y[self.users == user], random) for user in users])


def toy(n_users: int = 12, n_rows: int = 120, seed: int = 0, d: int = D) -> Toy:
    """`n_rows` a client, whose shares of the topics are drawn from a Dirichlet distribution of parameter 2."""
    random = np.random.default_rng(seed)
    spectrum = np.arange(1, d + 1) ** -0.5
    spectrum /= np.linalg.norm(spectrum)
    topics = 0.45 * spectrum * random.standard_normal((N_MODES + N_PUBLIC, d)) + 0.3 * spectrum

    def rows(of: np.ndarray) -> np.ndarray:
        z = topics[of] + 0.8 * spectrum * random.standard_normal((len(of), d))
        unit: np.ndarray = z / np.linalg.norm(z, axis=1, keepdims=True)
        return unit

    public = rows(np.repeat(np.arange(N_MODES, N_MODES + N_PUBLIC), 20))
    modes = np.concatenate([_dealt(random, n_rows) for _ in range(n_users)])
    return Toy(public, rows(modes), modes, np.repeat(np.arange(n_users), n_rows))


def _dealt(random: np.random.Generator, n_rows: int) -> np.ndarray:
    """Modes of a client's rows, at least five of each."""
    free = random.choice(N_MODES, n_rows - 5 * N_MODES, p=random.dirichlet(np.full(N_MODES, 2.0)))
    return np.concatenate([np.repeat(np.arange(N_MODES), 5), free])


def noisy(lists: Lists, tau: float, seed: int = 0) -> Lists:
    """Noise of this standard deviation on means and second moments (diagonals)."""
    random = np.random.default_rng(seed)
    means = lists.means + tau * random.standard_normal(lists.means.shape)
    seconds = lists.second_moments + tau * random.standard_normal(lists.means.shape)
    return Lists(lists.weights, means, np.maximum(seconds - means**2, 1e-3), lists.targets)


def shuffled(lists: Lists, orders: np.ndarray) -> Lists:
    """Every client's list in another order: `orders` [n, L]."""

    def turned(values: np.ndarray) -> np.ndarray:
        return np.take_along_axis(values, orders.reshape(*orders.shape, *[1] * (values.ndim - 2)), axis=1)

    return Lists(turned(lists.weights), turned(lists.means), turned(lists.covariances), turned(lists.targets))
