"""The datasets by name: what each is, where it comes from, and the numbers of its full published form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from dpcl_core.data.card import DatasetCard, Hub, Kind, Shape
from dpcl_core.data.domain_cards import DOMAINS
from dpcl_core.data.text_cards import PECL_SIX, SYNTHETIC, TEXT_LIMITS, TEXTS

__all__ = ["CARDS", "SENSOR_LIMITS", "TEXT_LIMITS", "DatasetCard", "Hub", "Kind", "Shape"]

_DIGITS = tuple("0123456789")
_CIFAR10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
# fmt: off
_CIFAR100 = (
    "apple", "aquarium_fish", "baby", "bear", "beaver", "bed", "bee", "beetle", "bicycle", "bottle", "bowl", "boy",
    "bridge", "bus", "butterfly", "camel", "can", "castle", "caterpillar", "cattle", "chair", "chimpanzee", "clock",
    "cloud", "cockroach", "couch", "crab", "crocodile", "cup", "dinosaur", "dolphin", "elephant", "flatfish", "forest",
    "fox", "girl", "hamster", "house", "kangaroo", "keyboard", "lamp", "lawn_mower", "leopard", "lion", "lizard",
    "lobster", "man", "maple_tree", "motorcycle", "mountain", "mouse", "mushroom", "oak_tree", "orange", "orchid",
    "otter", "palm_tree", "pear", "pickup_truck", "pine_tree", "plain", "plate", "poppy", "porcupine", "possum", "rabbit",
    "raccoon", "ray", "road", "rocket", "rose", "sea", "seal", "shark", "shrew", "skunk", "skyscraper", "snail", "snake",
    "spider", "squirrel", "streetcar", "sunflower", "sweet_pepper", "table", "tank", "telephone", "television", "tiger",
    "tractor", "train", "trout", "tulip", "turtle", "wardrobe", "whale", "willow_tree", "wolf", "woman", "worm",
)
# fmt: on

_SINGLE = (
    DatasetCard(
        name="digits",
        title="Handwritten digits",
        summary="1,797 tiny grey pictures of handwritten digits, 8 by 8 pixels. Bundled: nothing to download.",
        source="Alpaydin and Kaynak 1998, Optical Recognition of Handwritten Digits, test part, as in scikit-learn",
        licence="CC BY 4.0",
        n_classes=10,
        n_train=1347,
        n_test=450,
        classes=_DIGITS,
        shape=(8, 8, 1),
        held_out=0.25,
    ),
    DatasetCard(
        name="mnist",
        title="MNIST",
        summary="Grey pictures of handwritten digits, 28 by 28 pixels.",
        source="LeCun, Cortes and Burges 1998, The MNIST database of handwritten digits",
        licence="none stated; customary in research",
        n_classes=10,
        n_train=60_000,
        n_test=10_000,
        classes=_DIGITS,
        shape=(28, 28, 1),
        hub=Hub("ylecun/mnist", "*train-*.parquet", "*test-*.parquet"),
    ),
    DatasetCard(
        name="fashion-mnist",
        title="Fashion-MNIST",
        summary="Grey pictures of ten kinds of clothes and shoes, 28 by 28 pixels.",
        source="Xiao, Rasul and Vollgraf 2017, arXiv:1708.07747",
        licence="MIT",
        n_classes=10,
        n_train=60_000,
        n_test=10_000,
        classes=(
            "t-shirt/top",
            "trouser",
            "pullover",
            "dress",
            "coat",
            "sandal",
            "shirt",
            "sneaker",
            "bag",
            "ankle boot",
        ),
        shape=(28, 28, 1),
        is_balanced=True,
        hub=Hub("zalando-datasets/fashion_mnist", "*train-*.parquet", "*test-*.parquet"),
    ),
    DatasetCard(
        name="notmnist",
        title="notMNIST",
        summary="Grey pictures of the letters A to J in many fonts, 28 by 28 pixels. Some labels are wrong, as published.",
        source="Bulatov 2011, notMNIST, the small hand-cleaned set of 18,724 pictures",
        licence="none stated",
        n_classes=10,
        n_train=14_979,
        n_test=3_745,
        classes=tuple("ABCDEFGHIJ"),
        shape=(28, 28, 1),
        held_out=0.2,
        hub=Hub("anubhavmaity/notMNIST", "*train-*.parquet", "*test-*.parquet"),
    ),
    DatasetCard(
        name="svhn",
        title="SVHN",
        summary="Digits cut out of photographs of house numbers, 32 by 32 pixels, in colour.",
        source="Netzer et al. 2011, Reading Digits in Natural Images with Unsupervised Feature Learning (cropped digits)",
        licence="non-commercial use",
        n_classes=10,
        n_train=73_257,
        n_test=26_032,
        classes=_DIGITS,
        shape=(32, 32, 3),
        hub=Hub("ufldl-stanford/svhn", "cropped_digits/train-*.parquet", "cropped_digits/test-*.parquet"),
    ),
    DatasetCard(
        name="mnist-m",
        title="MNIST-M",
        summary="MNIST digits blended over patches of photographs, 32 by 32 pixels, in colour. Used where SVHN is not at "
        "hand; its digits are MNIST's, so it lies nearer to MNIST than real house numbers do.",
        source="Ganin et al. 2016, Domain-Adversarial Training of Neural Networks",
        licence="none stated for the pictures",
        n_classes=10,
        n_train=59_001,
        n_test=9_001,
        classes=_DIGITS,
        shape=(32, 32, 3),
        hub=Hub("Mike0307/MNIST-M", "*train-*.parquet", "*test-*.parquet"),
        stands_in_for="SVHN",
    ),
    DatasetCard(
        name="cifar10",
        title="CIFAR-10",
        summary="Colour photographs of ten kinds of animals and vehicles, 32 by 32 pixels.",
        source="Krizhevsky 2009, Learning Multiple Layers of Features from Tiny Images",
        licence="none stated; customary in research",
        n_classes=10,
        n_train=50_000,
        n_test=10_000,
        classes=_CIFAR10,
        shape=(32, 32, 3),
        is_balanced=True,
        hub=Hub("uoft-cs/cifar10", "*train-*.parquet", "*test-*.parquet"),
    ),
    DatasetCard(
        name="cifar100",
        title="CIFAR-100",
        summary="Colour photographs of a hundred kinds of things, 32 by 32 pixels.",
        source="Krizhevsky 2009, Learning Multiple Layers of Features from Tiny Images",
        licence="none stated; customary in research",
        n_classes=100,
        n_train=50_000,
        n_test=10_000,
        classes=_CIFAR100,
        shape=(32, 32, 3),
        is_balanced=True,
        hub=Hub("uoft-cs/cifar100", "*train-*.parquet", "*test-*.parquet"),
    ),
    DatasetCard(
        name="imagenet-r",
        title="ImageNet-R",
        summary="Paintings, cartoons, toys and other renditions of 200 ImageNet classes, in many sizes: far from photos. "
        "Published undivided: one fifth of each class is held out for testing.",
        source="Hendrycks et al. 2021, The Many Faces of Robustness",
        licence="MIT for the collection; the pictures keep their own rights",
        n_classes=200,
        n_train=24_000,
        n_test=6_000,
        held_out=0.2,
        hub=Hub("axiong/imagenet-r", "test/test-*.parquet", None),
        label_column="wnid",
        name_column="class_name",
    ),
    DatasetCard(
        name="pacs",
        title="PACS",
        summary="Seven kinds of things as paintings, cartoons and sketches. Used where ImageNet-R is not at hand: also "
        "renditions, but 7 classes instead of 200.",
        source="Li et al. 2017, Deeper, Broader and Artier Domain Generalization",
        licence="none stated; pictures may carry their own rights, do not redistribute",
        n_classes=7,
        n_train=7_992,
        n_test=1_999,
        classes=("dog", "elephant", "giraffe", "guitar", "horse", "house", "person"),
        held_out=0.2,
        hub=Hub("flwrlabs/pacs", "*train-*.parquet", None),
        stands_in_for="ImageNet-R",
    ),
)

# What every set of sensor windows leaves unprotected, a person's own ones as well.
SENSOR_LIMITS = (
    "a person, only a single window: one contributes many windows, windows of one recording may overlap, and one signal may "
    "occur at several rates",
)
_STATISTICS = (
    "mean and variance of the training windows, by which all values are scaled (as published): no ledger pays for them",
)
_WISDM = DatasetCard(
    name="har-wisdm",
    title="WISDM phone accelerometer",
    summary="Walking, jogging, stairs, sitting or standing, from the accelerometer of a phone in the pocket: 24 of the 51 "
    "people of WISDM, cut into windows of 100 samples at 5, 10, 20 and 50 Hz (mostly recorded at 20 Hz: those at 50 Hz are "
    "interpolated). Other people are in the test part.",
    source="Weiss et al. 2019, WISDM smartphone and smartwatch activity and biometrics dataset",
    licence="none stated where it was read; its origin is believed to state CC BY 4.0",
    n_classes=5,
    n_train=14_649,
    n_test=4_923,
    classes=("walking", "jogging", "stairs", "sitting", "standing"),
    stands_in_for="HARW",
    kind="sensor",
    limits=SENSOR_LIMITS,
)
_SENSORS = (
    _WISDM,
    replace(
        _WISDM,
        name="har-wisdm-zscored",
        title="WISDM phone accelerometer, scaled as published",
        summary="The same windows, scaled by mean and variance of the training part as Lai et al. do, not by a constant. "
        "For methods without a proved guarantee, or without noise: no ledger pays for these statistics.",
        scaled_by="training",
        files_of="har-wisdm",
        limits=(*SENSOR_LIMITS, *_STATISTICS),
    ),
    DatasetCard(
        name="har-phone50",
        title="Phone accelerometer at 50 Hz",
        summary="Walking, walking upstairs and downstairs, sitting or standing, recorded at 50 Hz by eight students and cut "
        "into windows of 100 samples at 5, 10, 20 and 50 Hz. Small; other people are in the test part.",
        source="DiFronzo, LSTM for human activity recognition classification (recordings of that repository)",
        licence="MIT",
        n_classes=5,
        n_train=2_420,
        n_test=780,
        classes=("walking", "walking_upstairs", "walking_downstairs", "sitting", "standing"),
        stands_in_for="HARW",
        kind="sensor",
        limits=SENSOR_LIMITS,
    ),
)


def _combined(
    name: str, title: str, summary: str, source: str, members: tuple[str, ...], stands_in_for: str | None = None
) -> DatasetCard:
    parts = [card for member in members for card in _SINGLE if card.name == member]
    return DatasetCard(
        name=name,
        title=title,
        summary=summary,
        source=f"{source}; " + "; ".join(card.title for card in parts),
        licence="each member's own",
        n_classes=sum(card.n_classes for card in parts),
        n_train=sum(card.n_train for card in parts),
        n_test=sum(card.n_test for card in parts),
        classes=tuple(f"{card.title}: {label}" for card in parts for label in card.classes),
        members=members,
        stands_in_for=stands_in_for,
    )


_FIVE = "Ebrahimi et al. 2020, Adversarial Continual Learning"
CARDS: Mapping[str, DatasetCard] = {
    card.name: card
    for card in (
        *_SINGLE,
        *_SENSORS,
        _combined(
            "5-datasets",
            "5-Datasets",
            "Five datasets of ten classes each, 50 labels in all: digits, house numbers, letters, clothes and photographs.",
            _FIVE,
            ("mnist", "svhn", "notmnist", "fashion-mnist", "cifar10"),
        ),
        _combined(
            "5-datasets-mnist-m",
            "5-Datasets with MNIST-M",
            "Five datasets of ten classes each, 50 labels in all, with MNIST-M in place of SVHN.",
            _FIVE,
            ("mnist", "mnist-m", "notmnist", "fashion-mnist", "cifar10"),
            stands_in_for="5-Datasets with SVHN",
        ),
        _combined(
            "cifar10-100",
            "CIFAR-10/100",
            "All classes of CIFAR-10, then all of CIFAR-100: 110 in all, eleven tasks of ten in a split stream.",
            "Lai et al. 2022, Lifelong DP (split CIFAR-10/100)",
            ("cifar10", "cifar100"),
        ),
        *SYNTHETIC,
        *TEXTS,
        PECL_SIX,
        *DOMAINS,
    )
}
