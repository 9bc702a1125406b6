"""Datasets whose parts are domains: reviews, turns of dialogues with what they ask for, and sentences with tagged names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dpcl_core.data.card import DatasetCard
from dpcl_core.data.tags import tags_of
from dpcl_core.data.text_cards import TEXT_LIMITS

_AMAZON = (
    *("apparel", "baby", "books", "camera_photo", "dvd"),
    *("electronics", "health_personal_care", "kitchen_housewares", "music", "toys_games"),
)
_MULTIWOZ = (
    ("attraction", ("find_attraction", "request_attraction")),
    ("hospital", ("find_hospital", "request_hospital")),
    ("hotel", ("book_hotel", "find_hotel", "request_hotel")),
    ("police", ("find_police", "request_police")),
    ("restaurant", ("book_restaurant", "find_restaurant", "request_restaurant")),
    ("taxi", ("book_taxi", "request_taxi")),
    ("train", ("book_train", "find_train", "request_train")),
)
_SGD = (
    ("banks", ("CheckBalance", "TransferMoney")),
    ("buses", ("BuyBusTicket", "FindBus")),
    ("events", ("BuyEventTickets", "FindEvents", "GetEventDates")),
    (
        "flights",
        ("ReserveOnewayFlight", "ReserveRoundtripFlights", "SearchOnewayFlight", "SearchRoundtripFlights"),
    ),
    ("hotels", ("BookHouse", "ReserveHotel", "SearchHotel", "SearchHouse")),
    ("media", ("FindMovies", "PlayMovie")),
    ("movies", ("FindMovies", "GetTimesForMovie")),
    ("rentalcars", ("GetCarsAvailable", "ReserveCar")),
    ("restaurants", ("FindRestaurants", "ReserveRestaurant")),
)
_SGD_SOURCES = tuple((domain, tuple(f"{domain}/{intent}" for intent in intents)) for domain, intents in _SGD)


def _labels(sources: Sequence[tuple[str, tuple[str, ...]]]) -> tuple[str, ...]:
    return tuple(label for _, labels in sources for label in labels)


def _tagged(card: DatasetCard, types: str, domains: str) -> DatasetCard:
    """The card of sentences with names of these types, from these domains, both written with blanks between."""
    tags = tags_of(types.split())
    return replace(
        card,
        n_classes=len(tags),
        classes=tags,
        stands_in_for="OntoNotes by domain",
        kind="tagged",
        limits=TEXT_LIMITS,
        sources=tuple((domain, tags) for domain in domains.split()),
    )


DOMAINS = (
    DatasetCard(
        name="amazon-domains",
        title="Amazon reviews of ten domains",
        summary="Reviews of products of ten kinds, such as books, clothes or kitchenware: negative or positive. Repeats are "
        "removed, texts are lower-cased, and ten of the collection's sixteen domains are here.",
        source="Liu, Qiu and Huang 2017 (FDU-MTL), on Blitzer, Dredze and Pereira 2007",
        licence="none stated for the reviews; MIT for the repository they were read from",
        n_classes=2,
        n_train=12_760,
        n_test=3_000,
        classes=("negative", "positive"),
        kind="text",
        limits=TEXT_LIMITS,
        sources=tuple((domain, ("negative", "positive")) for domain in _AMAZON),
    ),
    DatasetCard(
        name="multiwoz-intent",
        title="MultiWOZ 2.1 turns with derived intents",
        summary="What visitors of a town ask for, in seven domains: to find, to book or to be told something. The intent is "
        "derived from annotated dialogue acts; hospital and police have a few dozen turns only.",
        source="Budzianowski et al. 2018, MultiWOZ; Eric et al. 2020, MultiWOZ 2.1",
        licence="MIT; Apache-2.0 for the annotations",
        n_classes=17,
        n_train=9_684,
        n_test=2_307,
        classes=_labels(_MULTIWOZ),
        stands_in_for="MultiWOZ 2.2 intents",
        kind="text",
        limits=TEXT_LIMITS,
        sources=_MULTIWOZ,
    ),
    DatasetCard(
        name="sgd-intent",
        title="Schema-guided dialogue turns with intents",
        summary="User turns of nine service domains with the intent that the schema gives them. Short turns such as "
        '"Right, go ahead." cannot be told apart without what was said before.',
        source="Rastogi et al. 2020, Towards Scalable Multi-domain Conversational Agents",
        licence="CC BY-SA 4.0",
        n_classes=23,
        n_train=7_200,
        n_test=1_800,
        classes=_labels(_SGD_SOURCES),
        stands_in_for="MultiWOZ 2.2 intents",
        kind="text",
        limits=TEXT_LIMITS,
        sources=_SGD_SOURCES,
    ),
    _tagged(
        DatasetCard(
            name="ner-gum",
            title="GUM named mentions by genre",
            summary="Sentences of eight genres, from biographies to court hearings, with names of ten types. The tags are "
            "derived from the corpus' mentions and are silver labels. Suggested six: bio, interview, news, speech, "
            "textbook, voyage.",
            source="Zeldes 2017, The GUM corpus",
            licence="annotations CC BY 4.0; texts CC BY or CC BY-SA, two genres unlisted",
            n_classes=0,
            n_train=101_914,
            n_test=28_579,
        ),
        "person place organization abstract time event object substance animal plant",
        "academic bio court interview news speech textbook voyage",
    ),
    _tagged(
        DatasetCard(
            name="ner-wnut17",
            title="WNUT 2017 emerging entities by source",
            summary="Noisy sentences of Twitter, YouTube, and Stack Exchange with Reddit, with names of six types, many of "
            "them new.",
            source="Derczynski et al. 2017, WNUT2017 shared task",
            licence="CC BY 4.0",
            n_classes=0,
            n_train=78_619,
            n_test=20_838,
        ),
        "person location group creative-work product corporation",
        "twitter youtube stackexchange_reddit",
    ),
    _tagged(
        DatasetCard(
            name="ner-crossner",
            title="CrossNER, five domains",
            summary="Sentences of the Wikipedia on artificial intelligence, literature, music, politics and science, tagged "
            "by hand with 39 types, most of which belong to one domain.",
            source="Liu et al. 2021, CrossNER",
            licence="MIT",
            n_classes=0,
            n_train=105_909,
            n_test=94_953,
        ),
        "person location organisation country misc event award product politician politicalparty election writer book poem "
        "literarygenre magazine musicalartist band album song musicgenre musicalinstrument scientist university discipline "
        "theory academicjournal astronomicalobject chemicalcompound chemicalelement enzyme protein researcher algorithm "
        "task field metrics conference programlang",
        "ai literature music politics science",
    ),
)
