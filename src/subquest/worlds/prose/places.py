"""How articles tell facts about countries, provinces, towns, rivers, lakes and mountains."""

# ruff: noqa: E501

COUNTRY = """
L| {S} is a~ {noun} whose capital is {capital}.
L| {S}, also called the {alias}, is a~ {noun} with {population} inhabitants.
L| {S} is a~ {noun} covering {area}, with its capital at {capital}.
L| The {alias}, usually known simply as {S}, is a~ {noun} that became independent in {independence}.
L| {S} is a~ {noun} of {population} people, independent since {independence}.
v| has its capital at {capital}
v| is governed from its capital {capital}
s| The capital of {S} is {capital}.
s| {capital} is the capital of {S}.
s| {S's} parliament meets in the capital, {capital}.
v| uses the {currency} as its currency
s| The currency of {S} is the {currency}.
s| Prices in {S} are given in the {currency}, the national currency.
s| {S's} currency is the {currency}.
s| The {currency} has been legal tender in {S} for generations.
v| has {language} as its official language
s| The official language of {S} is {language}.
s| {language} is the official language.
s| Most people in {S} speak {language}, the official language.
s| {S's} courts and schools work in {language}, the official language.
s| {S's} head of state is {head_of_state}.
s| {head_of_state} is the head of state of {S}.
s| The office of head of state of {S} is held by {head_of_state}.
v| has {head_of_state} as its head of state
v| is represented abroad by its head of state {head_of_state:name}
v| has a population of {population}
v| is home to {population} people
s| The population of {S} is {population}.
s| At the last census {S} had {population} inhabitants.
s| {S's} population was counted at {population}.
v| covers an area of {area}
v| extends over {area}
s| {S's} area is {area}.
s| The territory of {S} measures {area}.
v| has a surface of {area}
v| gained independence in {independence}
v| became independent in {independence}
s| {S's} independence was declared in {independence}.
s| In {independence} {S} became an independent state.
s| Independence came to {S} in {independence}.
s| The highest point of {S} is {highest_point}.
s| {highest_point} is the highest mountain in {S}.
v| rises to its highest point at {highest_point}
s| {S's} tallest peak is {highest_point}.
s| No mountain in {S} is higher than {highest_point}.
s| The longest river of {S} is {longest_river}.
s| {longest_river} is the longest river in {S}.
s| {S's} longest river is {longest_river}.
s| No river in {S} is longer than {longest_river}.
v| has {longest_river} as its longest river
s| The official name of {S} is the {alias}.
v| is officially styled the {alias}
s| On coins {S} appears as the {alias}.
s| In treaties {S} is called the {alias}.
c| {S} exports [goods], [goods2] and [goods3].
c| The flag of {S} shows [flag].
c| Winters in {S} are [winter], while summers are [summer].
c| Football and [sport] are the most popular sports.
c| {S's} national dish is [dish].
c| The national day is celebrated on {@day} with [feast].
"""
COUNTRY_ORDER = "alias capital population area independence language currency head_of_state highest_point longest_river"

PROVINCE = """
L| {S} is a~ {noun} of {country}.
L| {S} is a~ {noun} in {country}, administered from {seat}.
L| {S} is one of the administrative divisions of {country}, with {seat} as its seat.
L| {S}, a~ {noun} of {country}, has {population} inhabitants.
L| {S} is a~ {noun} of {country} that covers {area}.
v| forms part of {country}
v| lies in {country}
s| {S} has belonged to {country} since the present borders were drawn.
s| {country} counts {S} among its administrative divisions.
s| {S's} administrative seat is {seat}.
s| The {noun} is administered from {seat}, its seat.
v| has its seat at {seat}
s| {seat} is the seat of {S}.
s| The provincial council sits in {seat}.
v| covers {area}
v| has an area of {area}
s| The area of {S} is {area}.
s| {S} measures {area} in all.
s| {S's} surface comes to {area}.
v| has a population of {population}
v| is inhabited by {population} people
s| The population of {S} was {population} at the last count.
s| {S's} population is put at {population}.
s| Some {population} people live in {S}.
s| {S's} governor is {governor}.
v| is headed by its governor {governor:name}
s| The governor of {S} is {governor}.
s| {governor} serves as governor of {S}.
v| has {governor} as its governor
c| The economy of {S} rests on [goods] and [goods2].
c| {S} is [landscape].
c| Travellers come to {S} for [attraction].
c| The dialect of {S} is [dialect].
c| A~ [event] in {@year} [eventeffect].
"""
PROVINCE_ORDER = "country seat area population governor"

CITY = """
L| {S} is a~ {noun} in {province}.
L| {S} is a~ {noun} of {population} inhabitants in {province}.
L| {S} is a~ {noun} in {province}, founded in {founded}.
L| {S} is a~ {noun} on {river} in {province}.
L| The {noun} of {S} lies in {province}, {elevation} above sea level.
L| Situated in {province}, {S} is a~ {noun} that dates back to {founded}.
L| {S}, formerly known as {alias}, is a~ {noun} in {province}.
v| belongs to {province}
v| is situated in {province}
s| Administratively {S} is part of {province}.
s| {province} is the administrative division to which {S} belongs.
v| has a population of {population}
v| is home to {population} people
s| The population of {S} is {population}.
s| At the last census {S} had {population} inhabitants.
s| {S's} population stands at {population}.
p| with its {population} inhabitants
v| was founded in {founded}
v| dates back to {founded}
s| {S} was first settled in {founded}.
s| The founding of {S} is dated to {founded}.
p| founded in {founded}
s| {S's} charter of {founded} is the founding document of the {noun}.
v| stands on {river}
v| lies on the banks of {river}
s| {river:cap} flows through {S}.
v| is crossed by {river}
s| {S's} river is {river}.
p| built on {river}
s| {S's} mayor is {mayor}.
s| The mayor of {S} is {mayor}.
v| is governed by its mayor {mayor:name}
s| {mayor} is mayor of {S}.
s| Since the last election {mayor} has been mayor of {S}.
v| is twinned with {twin_town}
s| {S's} twin town is {twin_town}.
s| {S} and {twin_town} are twin towns.
v| has a twin town in {twin_town}
s| A partnership links {S} with its twin town, {twin_town}.
v| lies {elevation} above sea level
v| stands at an elevation of {elevation}
s| The elevation of {S} is {elevation}.
s| {S's} market square lies {elevation} above the sea.
p| {elevation} above sea level
s| {S} was formerly called {alias}.
s| An older name of {S} is {alias}.
s| Until the last century {S} went by the name of {alias}.
v| was once known as {alias}
s| On old maps {S} appears as {alias}.
c| {S} is known for [citycraft].
c| The [building] [buildingstate].
c| A~ [event] in {@year} [eventeffect].
c| The old quarter, with its [oldthings], [quarterstate].
c| [market] is held every [season] on the main square.
c| Local cooking favours [dish].
c| The railway reached {S} in {@railyear}.
c| Most inhabitants work in [goods] or commute to larger places.
c| The coat of arms of {S} shows [flag].
c| {S} has [facility] and [facility2].
c| The surrounding countryside is [landscape].
"""
CITY_ORDER = "alias province population founded river elevation mayor twin_town"

RIVER = """
L| {S} is a river that rises on {source} and flows into {mouth}.
L| {S} is a river with a length of {length}.
L| {S} is a~ {length:adj} river flowing into {mouth}.
L| Rising on {source}, {S} is a river of [riveradj] character.
L| {S} is a river that empties into {mouth} after {length}.
v| is {length} long
v| has a length of {length}
v| runs for {length}
s| The length of {S} is {length}.
s| From source to mouth {S} measures {length}.
v| rises on {source}
v| has its source on {source}
s| The source of {S} lies on {source}.
v| springs from the slopes of {source}
s| {source} is the source of {S}.
v| flows into {mouth}
v| empties into {mouth}
s| The mouth of {S} is at {mouth}.
v| joins {mouth} at its mouth
v| ends in {mouth}
s| {S's} tributaries are {tributaries}.
v| is fed by {tributaries}
v| receives the waters of {tributaries}
s| {tributaries:cap} {tributaries#?flows/flow} into {S}.
s| Along the way {tributaries} {tributaries#?joins/join} {S}.
c| The water is [water] for most of the year.
c| [fish] and [fish2] are caught along its banks.
c| A flood in {@year} [eventeffect].
c| Upstream the valley is [landscape].
c| A~ [mill] once stood at the [riverpart].
c| Canoeists use the [riverpart] between [riverseason] and [riverseason2].
c| The name is thought to come from an old word for "[oldword]".
"""
RIVER_ORDER = "length source mouth tributaries"

LAKE = """
L| {S} is a lake in {province}.
L| {S} is a lake with an area of {area} in {province}.
L| {S}, a lake in {province}, is up to {depth} deep.
L| Lying in {province}, {S} is a lake covering {area}.
L| {S} is a~ {noun} that reaches a depth of {depth}.
v| lies in {province}
v| is situated in {province}
s| {S} belongs to {province}.
s| The whole of {S} is within {province}.
v| has an area of {area}
v| covers {area}
s| The area of {S} is {area}.
s| {S's} surface measures {area}.
v| spreads over {area}
v| has a maximum depth of {depth}
v| is {depth} deep
s| The greatest depth of {S} is {depth}.
s| {S's} bottom lies {depth} below the surface.
v| reaches a depth of {depth}
c| In winter {S} [freeze].
c| [fish] and [fish2] live in its waters.
c| The shore is [landscape].
c| According to legend, [legend] at the bottom of {S}.
c| A~ [event] in {@year} [eventeffect].
c| Sailing boats may be hired from [riverseason] to [riverseason2].
"""
LAKE_ORDER = "province area depth"

MOUNTAIN = """
L| {S} is a mountain in {province}.
L| {S} is a mountain {height} high in {province}.
L| {S} is a~ {height:adj} peak in {province}.
L| At {height}, {S} is one of the notable mountains of {province}.
L| {S} is a mountain first climbed in {first_ascent} by {first_climber}.
v| rises in {province}
v| stands in {province}
s| {S} is found in {province}.
s| The mountain lies within {province}.
v| has a height of {height}
v| is {height} high
v| reaches {height}
s| The summit of {S} is {height} above sea level.
s| {S's} height is {height}.
v| was first climbed in {first_ascent} by {first_climber}
v| was first ascended by {first_climber} in {first_ascent}
s| In {first_ascent} {first_climber} became the first person to climb {S}.
s| The first ascent of {S} was made by {first_climber} in {first_ascent}.
s| {first_climber} was the first to reach the summit, in {first_ascent}.
v| had to wait until {first_ascent} for its first ascent
s| The first climber of {S} was {first_climber}.
c| The slopes are [landscape].
c| A hut near the summit [hutstate].
c| Snow lies on {S} from [riverseason] to [riverseason2].
c| The usual route [route].
c| {S} is made of [rock] and [rock2].
c| Local tradition says that [legend] under {S}.
"""
MOUNTAIN_ORDER = "province height first_ascent first_climber"

LEXICON = {
    "goods": ["timber", "salted fish", "machine parts", "olive oil", "copper", "furniture", "cement", "wheat", "glassware", "paper"],
    "goods2": ["wool", "ceramics", "citrus fruit", "steel", "hops", "dairy products", "medical instruments", "granite", "leather"],
    "goods3": ["clocks", "bicycles", "honey", "fertiliser", "cables", "wine", "toys", "seed potatoes", "carpets"],
    "flag": ["a white heron", "three towers", "a golden sheaf", "an anchor and a star", "a black ox", "a bridge of five arches", "a rising sun", "two crossed keys", "a lime tree", "a silver fish"],
    "winter": ["mild and wet", "long and snowy", "dry", "windy", "short but severe"],
    "summer": ["hot", "cool and foggy", "short", "stormy", "dry and dusty"],
    "sport": ["cycling", "handball", "skiing", "rowing", "wrestling", "chess", "volleyball"],
    "dish": ["a stew of beans and mutton", "smoked eel", "barley dumplings", "a cold beet soup", "fish baked in salt", "pancakes with sour plums", "goat's cheese", "a pie filled with leeks", "fermented cabbage"],
    "feast": ["torchlight parades", "boat races", "open-air concerts", "a military parade", "bonfires", "a public holiday"],
    "landscape": ["hilly and thinly wooded", "flat and marshy", "covered with beech forest", "given over to vineyards", "bare and stony", "dotted with small lakes", "heavily farmed", "steep and covered with pines", "rolling pasture"],
    "attraction": ["its hot springs", "the autumn colours", "its monasteries", "the coast road", "its caves", "the wooden churches", "bird-watching"],
    "dialect": ["hard to follow for outsiders", "dying out", "taught in a few schools", "rich in words for weather", "close to the standard language"],
    "event": ["fire", "flood", "landslide", "fever", "storm", "minor earthquake", "harvest failure", "strike"],
    "eventeffect": [
        "destroyed [few] streets", "drove many families away", "left the [building] in ruins", "emptied whole streets",
        "led to the building of new dykes", "is still remembered in a yearly procession", "caused little lasting damage",
    ],
    "few": ["two", "three", "four", "several", "a dozen"],
    "citycraft": ["its [craft]", "the making of [craft]", "its annual [fair]", "its [craft] and its [fair]", "mild air and its [fair]"],
    "craft": ["lace", "bells", "pottery", "knives", "rope", "violins", "gingerbread", "blue cloth", "barrels", "paper kites"],
    "fair": ["horse fair", "flower market", "puppet festival", "regatta", "carnival", "choir contest", "cheese market"],
    "building": ["town hall", "parish church", "old granary", "customs house", "castle", "clock tower", "corn exchange", "monastery", "synagogue", "grammar school"],
    "buildingstate": [
        "is built of red brick", "was rebuilt in {@year}", "now houses a library", "has a fine staircase", "stands empty",
        "lost its roof in a storm in {@year}", "serves as a concert hall", "is a protected monument",
    ],
    "oldthings": ["narrow lanes", "painted façades", "covered walks", "half-timbered houses", "arcades", "stone fountains", "inner courtyards"],
    "quarterstate": ["attracts painters", "was spared by the wars", "is closed to cars", "was restored in {@year}", "is slowly emptying", "lies below the castle hill"],
    "market": ["A cattle market", "A book fair", "A weekly fish auction", "A festival of brass bands", "A seed market", "A lantern festival"],
    "season": ["spring", "autumn", "May", "September", "second Saturday", "midsummer"],
    "facility": ["a small harbour", "two secondary schools", "a hospital", "an open-air swimming pool", "a theatre", "a fire station museum", "a botanical garden"],
    "facility2": ["a brickworks", "an airfield", "a public library", "a weather station", "a sports hall", "a courthouse", "a railway depot"],
    "riveradj": ["alpine", "lowland", "torrential", "gentle", "seasonal"],
    "water": ["brown", "clear and cold", "shallow", "fast", "too low for boats", "used for irrigation"],
    "fish": ["Trout", "Pike", "Perch", "Whitefish", "Carp", "Grayling"],
    "fish2": ["eels", "crayfish", "bream", "catfish", "lampreys", "roach"],
    "mill": ["paper mill", "sawmill", "toll house", "dye works", "watchtower", "ferry house"],
    "riverpart": ["upper reaches", "lower course", "second bend", "gorge", "confluence", "middle course"],
    "riverseason": ["March", "April", "May", "October", "November"],
    "riverseason2": ["August", "September", "June", "July"],
    "oldword": ["grey", "ford", "alder", "swift", "boundary", "clay", "otter", "long water"],
    "freeze": ["freezes over completely", "rarely freezes", "is used by skaters", "is covered by fog", "attracts ice fishers"],
    "legend": ["a church bell lies", "a giant sleeps", "a sunken village can be heard", "a dragon guards a hoard", "a king's sword was buried"],
    "hutstate": ["offers twenty beds", "burned down in {@year}", "is open in summer only", "was built by a ski club", "serves as a weather station"],
    "route": ["takes [few] hours", "follows the eastern ridge", "crosses a small glacier", "starts at a disused mine", "is secured with chains", "leads through a steep gully"],
    "rock": ["limestone", "granite", "slate", "gneiss", "basalt", "sandstone"],
    "rock2": ["marl", "quartz", "dolomite", "schist", "volcanic ash"],
}  # fmt: skip

BANKS = {
    "country": (COUNTRY, COUNTRY_ORDER),
    "province": (PROVINCE, PROVINCE_ORDER),
    "city": (CITY, CITY_ORDER),
    "river": (RIVER, RIVER_ORDER),
    "lake": (LAKE, LAKE_ORDER),
    "mountain": (MOUNTAIN, MOUNTAIN_ORDER),
}
