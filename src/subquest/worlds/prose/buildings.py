"""How articles tell facts about stadiums, museums and bridges."""

# ruff: noqa: E501

from . import organisations

STADIUM = """
L| {S} is a stadium in {city}.
L| {S} is a stadium in {city} with a capacity of {capacity}.
L| {S} is a stadium in {city} opened in {opened}.
L| Opened in {opened}, {S} is a stadium designed by {architect}.
L| {S} is a~ {capacity:raw}-seat stadium in {city}.
v| is located in {city}
v| stands in {city}
s| {S} belongs to the municipality of {city}.
s| {city} owns {S}, which lies within its limits.
v| holds {capacity} spectators
v| has a capacity of {capacity}
s| {S's} capacity is {capacity}.
s| There is room for {capacity} spectators.
v| seats {capacity}
v| was opened in {opened}
v| opened its gates in {opened}
s| {S's} opening took place in {opened}.
p| opened in {opened}
s| The first match was played in {opened}, when {S} opened.
v| was designed by {architect}
s| {S's} architect was {architect}.
s| The architect of {S} was {architect}.
s| {architect} designed {S}.
p| designed by {architect}
c| The main stand [standstate].
c| Concerts and [stadiumevent] are also held there.
c| The turf was replaced in {@year}.
c| In {@year} [clubevent].
c| The roof can be seen from [distance].
"""
STADIUM_ORDER = "city opened architect capacity"

MUSEUM = """
L| {S} is a museum in {city}.
L| {S} is a museum in {city} that opened in {opened}.
L| {S} is a museum in {city}, designed by {architect}.
L| Opened in {opened}, {S} is a museum in {city}.
L| {S} is an art museum housed in a building by {architect}.
v| is located in {city}
v| stands in {city}
s| {S} belongs to the town of {city}.
s| {city} is the home of {S}.
v| opened in {opened}
v| was opened to the public in {opened}
s| {S's} opening took place in {opened}.
p| opened in {opened}
s| Visitors were first admitted in {opened}, when {S} opened.
v| was designed by {architect}
s| {S's} architect was {architect}.
s| The architect of {S} was {architect}.
s| {architect} designed the building.
p| designed by {architect}
c| The collection is strong in [collection] and [collection2].
c| {S} is closed on [closed].
c| An extension was added in {@year}.
c| Thieves broke in during {@year} and took [stolen].
c| The entrance hall [standstate].
c| Every year some [visitors] visitors are counted.
"""
MUSEUM_ORDER = "city opened architect"

BRIDGE = """
L| {S} is a bridge in {city}.
L| {S} is a bridge over {river} in {city}.
L| {S} is a~ {length:adj} bridge over {river}.
L| Opened in {opened}, {S} is a bridge crossing {river} at {city}.
L| {S} is a bridge engineered by {engineer}.
v| is located in {city}
v| stands in {city}
s| {S} belongs to {city}.
s| {S} links the two halves of {city}.
v| crosses {river}
v| spans {river}
s| The river below {S} is {river}.
s| {S} carries traffic across {river}.
v| leads over {river}
v| is {length} long
v| has a length of {length}
s| The length of {S} is {length}.
s| {S} measures {length} from end to end.
s| {S's} total length is {length}.
v| was opened in {opened}
v| opened to traffic in {opened}
s| {S's} opening took place in {opened}.
p| opened in {opened}
s| In {opened} {S} was opened.
v| was engineered by {engineer}
s| {S's} engineer was {engineer}.
s| The engineer of {S} was {engineer}.
s| {engineer} was the engineer in charge of {S}.
p| engineered by {engineer}
c| It is made of [bridgestuff].
c| In {@year} [bridgeevent].
c| Tolls were charged until {@year}.
c| Two [statues] guard the approaches.
c| {S} appears on [bridgepicture].
"""
BRIDGE_ORDER = "city river opened engineer length"

LEXICON = {
    "clubevent": organisations.LEXICON["clubevent"],
    "standstate": ["is made of timber", "was rebuilt in {@year}", "is decorated with mosaics", "dates from the first years", "has a leaking roof", "is lit by tall windows"],
    "stadiumevent": ["athletics meetings", "trade fairs", "church congresses", "motorcycle races", "rugby matches"],
    "distance": ["the sea", "the motorway", "most of the old town", "far up the valley"],
    "collection": ["landscapes", "glass", "medieval altarpieces", "prints", "folk costumes", "coins"],
    "collection2": ["miniatures", "modern sculpture", "clocks", "drawings", "silver", "tapestries"],
    "closed": ["Mondays", "Tuesdays", "public holidays", "rainy afternoons in winter"],
    "stolen": ["a bronze", "several coins", "three drawings", "an empty frame", "a jewelled clock"],
    "visitors": ["20,000", "45,000", "8,000", "130,000", "75,000"],
    "bridgestuff": ["dressed stone", "riveted iron", "reinforced concrete", "timber and stone", "steel", "brick"],
    "bridgeevent": ["a flood carried away two arches", "the roadway was widened", "the railings were replaced", "it was closed to heavy traffic", "a barge damaged a pier"],
    "statues": ["stone lions", "bronze nymphs", "sphinxes", "statues of saints", "small towers"],
    "bridgepicture": ["old banknotes", "countless postcards", "the town's coat of arms", "a well-known poster"],
}  # fmt: skip

BANKS = {
    "stadium": (STADIUM, STADIUM_ORDER),
    "museum": (MUSEUM, MUSEUM_ORDER),
    "bridge": (BRIDGE, BRIDGE_ORDER),
}
