"""How articles tell facts about ships, wars, battles and treaties."""

# ruff: noqa: E501

SHIP = """
L| {S} is a~ {noun} built by {builder}.
L| {S} is a~ {noun} launched in {launched}.
L| {S} is a~ {noun} operated by {operator}.
L| {S} is a~ {length:adj} {noun} launched in {launched} by {builder}.
L| Launched in {launched}, {S} is a~ {noun} whose home port is {home_port}.
v| was built by {builder}
s| {builder} built {S}.
s| The builder of {S} was {builder}.
p| built by {builder}
s| {S's} builder was {builder}.
v| was launched in {launched}
v| slid down the slipway in {launched}
s| {S's} launch took place in {launched}.
p| launched in {launched}
s| The launch of {S} was celebrated in {launched}.
v| is operated by {operator}
v| sails for {operator}
s| {S's} operator is {operator}.
s| The operator of {S} is {operator}.
s| {operator} operates the {noun}.
v| has its home port at {home_port}
s| {S's} home port is {home_port}.
s| The home port of {S} is {home_port}.
v| is registered at its home port {home_port}
s| {home_port} is the home port of {S}.
v| is {length} long
v| has a length of {length}
s| {S's} length is {length}.
s| From bow to stern {S} measures {length}.
s| The length of the {noun} is {length}.
v| was named after {named_after}
s| {S} was named in honour of {named_after}.
s| {S's} name honours {named_after}, after whom it was named.
s| The {noun} bears the name of {named_after}, after whom it was named.
s| The {noun} was named for {named_after}.
c| In {@year} [shipevent].
c| {S's} engines were [engine].
c| The {noun} carried [cargo] and [cargo2].
c| Sailors called it [shipname].
c| {S} was painted [colour] with a~ [colour2] funnel.
"""
SHIP_ORDER = "builder launched operator home_port length named_after"

WAR = """
L| {S} was a war fought between {country} and {opponent}.
L| {S} was a war between {country} and {opponent} that began in {war_start}.
L| {S} was fought from {war_start} to {war_end} between {country} and {opponent}.
L| {S}, which lasted from {war_start} to {war_end}, was an armed conflict.
L| {S} was an armed conflict that broke out in {war_start}.
s| {country} and {opponent} were the warring parties.
v| was fought by {country} against {opponent}
s| The two sides were {country} and {opponent}.
s| {S's} belligerents were {country} and {opponent}.
s| In {S}, {country} stood against {opponent}.
v| began in {war_start}
v| broke out in {war_start}
s| The outbreak of {S} came in {war_start}.
s| {S's} first shots were fired in {war_start}, when it began.
v| started in {war_start}
v| ended in {war_end}
v| came to an end in {war_end}
s| The end of {S} came in {war_end}.
s| Fighting stopped in {war_end}.
v| was over by {war_end}
s| {S's} {battles#?only major engagement was/major engagements were} {battles}.
s| {battles:cap} {battles#?was/were} fought in the course of {S}.
v| saw {battles}
s| {S} is remembered for {battles}.
v| included {battles}
s| {S} was ended by {ended_by}.
s| {ended_by:cap} ended {S}.
v| was concluded by {ended_by}
s| Peace was made in {ended_by}, which ended {S}.
s| {S's} end was sealed by {ended_by}.
c| Its causes were [warcause] and [warcause2].
c| Both armies suffered from [suffering].
c| Historians disagree about [dispute].
c| [losses] soldiers lost their lives.
"""
WAR_ORDER = "country opponent war_start war_end battles ended_by"

BATTLE = """
L| {S} was a~ {noun} of {war}.
L| {S} was fought on {battle_date} at {battle_place}.
L| {S} was a~ {noun} fought at {battle_place} during {war}.
L| {S} took place on {battle_date} near {battle_place}.
L| {S}, fought on {battle_date}, was an engagement of {war}.
v| was part of {war}
v| belongs to {war}
s| {S} was one of the engagements of {war}.
s| {war:cap} reached its turning point in {S}.
s| {S} was fought in the course of {war}.
v| was fought at {battle_place}
v| took place at {battle_place}
s| {S's} site is close to {battle_place}.
s| The place of {S} was {battle_place}.
s| The armies met at {battle_place}.
v| was fought on {battle_date}
v| took place on {battle_date}
s| {S's} date was {battle_date}.
s| The date of {S} is {battle_date}.
s| The guns opened fire on {battle_date}.
s| The victorious commander was {commander}.
v| was won by troops under {commander}
s| {S's} victorious commander was {commander}.
s| {commander} was the commander who won {S}.
s| The winning side was under the command of {commander}.
s| Victory went to the commander {commander:name}.
c| The outcome was decided by [decide].
c| [losses] men were killed or wounded.
c| The weather was [weather].
c| A monument [monument].
c| Accounts of {S} differ on [dispute].
c| The defeated side withdrew [withdraw].
"""
BATTLE_ORDER = "war battle_place battle_date commander"

TREATY = """
L| {S} was a treaty signed on {signed_on} at {signed_at}.
L| {S} was an agreement signed at {signed_at}.
L| {S} was a treaty between {signatories}.
L| Signed on {signed_on}, {S} was a treaty between {signatories}.
L| {S} is the name of an agreement concluded at {signed_at} on {signed_on}.
v| was signed at {signed_at}
s| {S's} place of signing was {signed_at}.
s| Delegates signed {S} at {signed_at}.
s| {signed_at} is where {S} was signed.
v| was concluded at {signed_at}
v| was signed on {signed_on}
s| {S's} date of signing was {signed_on}.
s| The signing of {S} took place on {signed_on}.
s| Delegates put their names to it on {signed_on}.
v| was concluded on {signed_on}
s| The signatories were {signatories}.
v| was signed by {signatories}
s| {S's} signatories were {signatories}.
s| {signatories} signed {S}.
v| bound {signatories}
v| ended {ended_war}
v| put an end to {ended_war}
s| {ended_war:cap} was ended by {S}.
s| With {S}, {ended_war} came to an end.
v| brought {ended_war} to a close
c| It dealt with [treatysubject] and [treatysubject2].
c| The text runs to [articles] articles.
c| Ratification took [few] months.
c| The original, [original], is kept in a state archive.
c| A secret clause concerned [treatysubject].
c| The negotiations were [negotiations].
"""
TREATY_ORDER = "signed_on signed_at signatories ended_war"

LEXICON = {
    "shipevent": ["it ran aground in fog", "it was refitted", "it collided with a barge", "it rescued [few] fishermen", "a boiler exploded", "it was laid up for the winter", "it changed its route"],
    "few": ["three", "four", "six", "seven", "eleven", "fourteen"],
    "engine": ["replaced twice", "unreliable", "built abroad", "among the strongest of their time", "converted from coal to oil"],
    "cargo": ["grain", "timber", "mail", "emigrants", "coal", "fruit", "pilgrims"],
    "cargo2": ["livestock", "machinery", "wine", "day trippers", "salt", "newspapers"],
    "shipname": ["the Old Lady", "the Iron Goose", "Rolling Mary", "the Snail", "Lucky Seven", "the Wash Tub"],
    "colour": ["white", "black", "dark green", "grey", "cream"],
    "colour2": ["red", "yellow", "blue", "striped", "black"],
    "warcause": ["a quarrel over fishing rights", "a disputed inheritance", "customs duties", "the murder of an envoy", "a boundary dispute", "control of a mountain pass"],
    "warcause2": ["old rivalry", "failed negotiations", "bad harvests", "the ambition of ministers", "a broken alliance"],
    "suffering": ["hunger", "typhus", "desertion", "cold", "a lack of boots", "poor maps"],
    "dispute": ["who fired first", "the number of the fallen", "the role of the cavalry", "the value of the spoils", "the conduct of the staff"],
    "losses": ["Some 1,200", "About 4,000", "Nearly 9,000", "More than 600", "Roughly 15,000", "Close to 300", "Some 2,500", "At least 700"],
    "decide": ["a late cavalry charge", "the artillery", "fog", "a broken bridge", "fresh troops from the north", "a misunderstood order", "lack of powder"],
    "weather": ["unusually cold", "hot and windless", "wet", "stormy", "misty until noon"],
    "monument": ["stands on the hill", "was put up in {@year}", "lists the names of the fallen", "was removed in {@year}", "is visited by schoolchildren"],
    "withdraw": ["across the river", "in good order", "leaving its guns behind", "under cover of darkness", "towards the coast"],
    "treatysubject": ["fishing rights", "the return of prisoners", "border posts", "river navigation", "customs duties", "war debts", "grazing land"],
    "treatysubject2": ["the postal service", "a royal marriage", "railway gauges", "extradition", "the use of harbours", "church property"],
    "articles": ["twelve", "nineteen", "thirty-one", "forty", "seven", "fifty-two"],
    "original": ["written on parchment", "stained with ink", "sealed in red", "bound in leather"],
    "negotiations": ["long and bitter", "held in secret", "twice broken off", "surprisingly short", "followed closely by the newspapers"],
}  # fmt: skip

BANKS = {
    "ship": (SHIP, SHIP_ORDER),
    "war": (WAR, WAR_ORDER),
    "battle": (BATTLE, BATTLE_ORDER),
    "treaty": (TREATY, TREATY_ORDER),
}
