"""How articles tell facts about films, books, bands, albums, songs and paintings."""

# ruff: noqa: E501

FILM = """
L| {S} is a~ {country:adj} film directed by {director}.
L| {S} is a~ {release_date:y} film directed by {director} and starring {starring}.
L| {S} is a~ {country:adj} [filmgenre] film released on {release_date}.
L| {S} is a~ [filmgenre] film by {director}, with {starring} in the leading roles.
L| Directed by {director}, {S} is a~ {country:adj} film of {release_date:y}.
L| {S} is a~ {running_time:raw}-minute [filmgenre] film with {starring}.
v| was directed by {director}
s| {director} directed {S}.
s| The director of {S} was {director}.
s| Direction was in the hands of {director}.
p| directed by {director}
s| {S's} director, {director}, [directoranecdote].
v| was written by {screenwriter}
s| The screenplay was written by {screenwriter}.
s| {screenwriter} wrote the screenplay.
p| scripted by {screenwriter}
s| {S's} screenwriter was {screenwriter}.
s| The script of {S} is by {screenwriter}.
s| The music was composed by {composer}.
s| {composer} composed the music for {S}.
v| has a score by {composer}
s| {S's} composer was {composer}.
s| For the score the producers turned to {composer}, who composed the music.
v| stars {starring}
s| The leading roles are played by {starring}.
s| {starring} starred in {S}.
v| features {starring} in the main parts
s| {S's} stars are {starring}.
s| The cast is led by {starring}.
v| was released on {release_date}
v| opened in cinemas on {release_date}
s| {S's} release date was {release_date}.
s| Audiences first saw {S} on its release on {release_date}.
v| came out on {release_date}
p| released on {release_date}
v| runs for {running_time}
v| has a running time of {running_time}
s| {S's} running time is {running_time}.
s| The finished {noun} lasts {running_time}.
v| is {running_time} long
v| was produced by {studio}
s| The production company was {studio}.
s| {studio} produced {S}.
v| was made by the studio {studio:name}
p| produced by {studio}
v| is based on {based_on:ref}
s| {S} is an adaptation of {based_on:ref}.
s| The story was adapted from {based_on:ref}, on which {S} is based.
v| was adapted from {based_on:ref}
p| based on {based_on:ref}
s| Its source is {based_on:ref}.
v| is set in {set_in}
v| takes place in {set_in}
s| The story is set in {set_in}.
s| {S's} setting is {set_in}.
s| Most of the action of {S} takes place in {set_in}.
v| is a~ {country:adj} production
v| was made in {country}
s| {S's} country of origin is {country}.
s| {country} is the country of origin of {S}.
s| {S} counts among the better-known films from {country}.
c| The plot follows [hero] who [plot].
c| Critics [filmcritic], and [filmcritic2].
c| Shooting took [few] weeks and was interrupted by [trouble].
c| The [craftwork] was praised [abroad].
c| {S} [boxoffice].
c| A restored print was shown in {@year}.
c| One scene, in which [hero] [plot], was cut before the premiere.
c| The title refers to [titleref].
"""
FILM_ORDER = "director starring release_date country screenwriter based_on composer studio set_in running_time"

BOOK = """
L| {S} is a~ {noun} by {author}.
L| {S} is a~ {genre} by {author}, published in {published}.
L| {S} is a~ {noun} of {published} by the {author:citizen} writer {author:name}.
L| Published in {published}, {S} is a~ {noun} by {author}.
L| {S} is a~ {published} {noun} written by {author}.
L| {S} is a~ {pages:raw}-page {noun} by {author}.
v| was written by {author}
s| {author} wrote {S}.
s| The author of {S} is {author}.
p| written by {author}
s| {S's} author, {author}, [authoranecdote].
v| was published by {publisher}
v| was brought out by {publisher}
s| {publisher} published {S}.
s| The publisher of {S} was {publisher}.
p| published by {publisher}
s| {S's} publisher was {publisher}.
v| was published in {published}
v| appeared in {published}
s| {S's} first edition is dated {published}.
v| first came out in {published}
s| The year of publication is {published}.
v| has {pages} pages
v| runs to {pages} pages
s| {S's} first edition has {pages} pages.
s| In print {S} fills {pages} pages.
v| comes to {pages} pages
v| is a~ {genre}
v| belongs to the genre of the {genre}
s| {S's} genre is the {genre}.
s| In form {S} is a~ {genre}.
s| Librarians shelve {S} as a~ {genre}.
v| is set in {set_in}
v| takes place in {set_in}
s| The setting of {S} is {set_in}.
s| {S's} chapters are set in {set_in}.
s| Readers recognise {set_in} as the setting of {S}.
v| was followed by the sequel {sequel:name}
s| {S's} sequel is {sequel:name}.
s| {sequel:name} is the sequel to {S}.
s| The author continued {S} in a sequel, {sequel:name}.
s| The story goes on in the sequel {sequel:name}.
s| {S} was adapted as the film {adaptation:name}.
s| The film {adaptation:name} is based on {S}.
v| was filmed as {adaptation:name}
s| A film adaptation, {adaptation:name}, is based on the {noun}.
v| served as the basis of the film {adaptation:name}
c| It tells the story of [hero] who [plot].
c| Reviewers [bookcritic], and [bookcritic2].
c| The manuscript [manuscript].
c| {S} has been translated into [few] languages.
c| The narrator is [hero] who [plot].
c| A~ [edition] edition appeared in {@year}.
c| {S} opens with [opening] and ends with [opening2].
c| School readers often contain the chapter about [opening].
"""
BOOK_ORDER = "author published genre publisher set_in pages sequel adaptation"

BAND = """
L| {S} is a~ {genre} band formed in {formed_in} in {formed}.
L| {S} is a~ {genre} group fronted by {singer}.
L| {S} is a band from {formed_in} with {singer} as lead singer.
L| Formed in {formed}, {S} is a~ {genre} band.
L| {S} is a~ {genre} band that came together in {formed_in}.
v| was formed in {formed}
v| was formed in {formed_in}
v| came together in {formed_in} in {formed}
s| {S's} formation in {formed_in} dates from {formed}.
s| The group {S} got its start in {formed_in} in {formed}.
v| was founded in {formed_in} in {formed}
s| {formed_in} is the place where {S} was formed.
v| plays {genre}
s| {S's} style is usually described as {genre}.
s| The genre of {S} is {genre}.
v| is associated with {genre}
s| Critics file {S} under {genre}.
s| {S's} lead singer is {singer}.
s| {singer} is the lead singer.
v| has {singer} as lead singer
s| Lead vocals are sung by {singer}.
p| fronted by {singer}
s| {S's} members are {members}.
s| The members of {S} are {members}.
v| consists of {members}
s| The line-up of {S} is made up of {members}.
v| brings together {members} as its members
s| {S} signed with the label {label:name}.
s| {S's} record label is {label:name}.
v| is signed to {label}
s| Its records appear on {label}.
v| joined the label {label:name} after a tour
s| {S's} records are {recordings:years}.
v| recorded {recordings:years}
v| released {recordings:years}
s| The discography of {S} consists of {recordings:years}.
s| {S} made the {recordings#?album/albums} {recordings:years}.
c| {S's} stage shows are known for [stage].
c| The name was chosen [namechoice].
c| {S} toured [tour] in {@year}.
c| Their [craftmusic] has been compared with [compared].
c| A fan club meets every year to hear [oddmusic].
"""
BAND_ORDER = "formed formed_in genre singer members label recordings"

ALBUM = """
L| {S} is an album by {performer}.
L| {S} is an album by {performer}, released on {release_date}.
L| {S} is an album released by {performer} in {release_date:y}.
L| Released on {release_date}, {S} is an album by {performer}.
L| {S} is a~ {tracks:raw}-track album by {performer}.
v| was recorded by {performer}
s| {performer} recorded {S}.
s| The performer of {S} is {performer}.
p| performed by {performer}
s| {S's} performer is {performer}.
v| was released by the label {label:name}
s| {label:name} is the label that issued {S}.
v| came out on {label}
s| {S's} record label was {label}.
p| issued by {label}
v| was released on {release_date}
v| appeared on {release_date}
s| {S's} release date was {release_date}.
s| Record shops received {S} on its release on {release_date}.
p| released on {release_date}
v| contains {tracks} tracks
v| has {tracks} tracks
s| {S's} track list has {tracks} tracks.
s| There are {tracks} tracks on {S}.
v| is made up of {tracks} tracks
c| It was recorded in [studioplace] in [few] weeks.
c| Reviewers heard [oddmusic] and [oddmusic2].
c| The cover shows [cover].
c| {S} [boxofficemusic].
c| The sessions were interrupted by [trouble].
c| A remastered version appeared in {@year}.
"""
ALBUM_ORDER = "performer release_date label tracks"

SONG = """
L| {S} is a song by {song_performer}.
L| {S} is a song by {song_performer} from the album {album:name}.
L| {S} is a song written by {songwriter} and recorded by {song_performer}.
L| {S} is a~ {song_year} song by {song_performer}.
L| {S} is a song from {album:name}, released in {song_year}.
s| The song was performed by {song_performer}.
v| was recorded by {song_performer}
s| {song_performer} recorded the song.
s| The performer is {song_performer}.
v| was made popular by its performer {song_performer:name}
v| was written by {songwriter}
s| {songwriter} wrote the song.
s| The songwriter was {songwriter}.
p| written by {songwriter}
s| Words and music are by the songwriter {songwriter:name}.
v| appears on the album {album:name}
v| was included on {album:name}
s| The song is part of the album {album:name}.
s| It was taken from the album {album:name}.
s| The album {album:name} contains the song.
v| was released in {song_year}
v| came out in {song_year}
s| Its year of release is {song_year}.
s| Listeners first heard the song in {song_year}.
p| released in {song_year}
c| The lyrics describe [hero] who [plot].
c| The song is built on [oddmusic] and [oddmusic2].
c| It [boxofficemusic].
c| A cover version, recorded in {@year}, replaces [oddmusic] with [oddmusic2].
c| The chorus was used in an advertisement for [advert].
"""
SONG_ORDER = "song_performer songwriter album song_year"

PAINTING = """
L| {S} is a painting by {painter}.
L| {S} is a painting of {painted} by {painter}.
L| {S} is an oil painting by {painter}, kept at {museum:name}.
L| Painted in {painted} by {painter}, {S} hangs in {museum:name}.
L| {S} is a painting by {painter} that shows {depicts}.
v| was painted by {painter}
s| {painter} painted {S}.
s| The painter of {S} was {painter}.
p| painted by {painter}
s| {S's} painter, {painter}, [painteranecdote].
v| was painted in {painted}
v| dates from {painted}
s| {S's} date is {painted}.
s| The canvas was finished in {painted}.
s| Work on {S} ended in {painted}.
v| is kept at {museum:name}
v| hangs in {museum:name}
s| {museum:cap} owns {S}.
s| {S's} home is {museum:name}.
v| belongs to the collection of {museum:name}
v| depicts {depicts}
v| shows {depicts}
s| The subject of {S} is {depicts}.
s| {S} is a picture of {depicts}.
s| What {S} depicts is {depicts}.
c| The palette is dominated by [colour] and [colour2].
c| X-rays show [xray] beneath the surface.
c| {S} was [paintinghistory].
c| The frame, [frame], is not original.
c| A copy was made in {@year}.
"""
PAINTING_ORDER = "painter painted museum depicts"

LEXICON = {
    "filmgenre": ["drama", "comedy", "crime", "adventure", "war", "mystery", "romantic", "satirical"],
    "hero": [
        "a young schoolteacher", "a retired sea captain", "a ballet dancer", "a disgraced lawyer", "an ageing pianist", "a country doctor",
        "an orphaned clockmaker", "a travelling salesman", "a lighthouse keeper", "a forger", "an out-of-work miner", "a widow",
        "a boy of twelve", "a customs officer", "a deserter", "a lonely translator",
    ],
    "plot": [
        "inherits a~ [object] and loses [lost]", "returns home after [few] years", "falls in love with [lover]", "is blamed for a~ [crime]",
        "tries to sell a~ [object]", "finds a~ [object] in [place]", "must choose between duty and [lover]", "pretends to be [lover]",
        "crosses the country to deliver a~ [object]", "investigates a~ [crime] in [place]",
    ],
    "object": ["worthless mine", "stolen violin", "box of letters", "ruined hotel", "prize horse", "forged will", "silver watch", "fishing boat", "printing press"],
    "lost": ["everything else", "a reputation", "an old friend", "the family house", "a sense of direction", "a fortune"],
    "lover": ["a rival's daughter", "a travelling actor", "the mayor's secretary", "an exiled prince", "a nurse", "a complete stranger"],
    "crime": ["theft", "poisoning", "shipwreck", "bank robbery", "disappearance", "fire"],
    "place": ["an attic", "a border village", "a closed theatre", "a mountain inn", "the archives", "a flooded cellar"],
    "filmcritic": ["admired the photography", "found the pace slow", "praised the dialogue", "were divided", "welcomed its humour", "disliked the ending"],
    "filmcritic2": ["audiences agreed", "the film was soon forgotten", "it won a small festival prize", "the censors asked for cuts", "it has since been reappraised", "television made it popular"],
    "few": ["three", "four", "five", "six", "seven", "eight", "nine", "eleven"],
    "trouble": ["bad weather", "a strike", "a lack of money", "a fire in the studio", "illness", "quarrels", "a power cut"],
    "craftwork": ["camera work", "set design", "editing", "costume design", "sound"],
    "abroad": ["abroad", "at home and abroad", "by younger directors", "in the provinces", "in neighbouring countries"],
    "boxoffice": ["was a modest success", "lost money", "ran for a year in some cinemas", "was the hit of the season", "found its audience late", "was shown mostly in film clubs"],
    "titleref": ["a folk song", "an inn", "a line of verse", "a nickname", "a painting seen in the first scene", "a children's game"],
    "directoranecdote": ["had wanted to make it for years", "took over at short notice", "considered it a failure", "appears briefly as a waiter", "rewrote the ending on the set"],
    "authoranecdote": ["wrote it in [few] months", "later disowned it", "dedicated it to a sister", "called it an exercise", "revised it twice", "worked on it at night"],
    "painteranecdote": ["never sold it", "reworked it several times", "gave it away", "signed it on the back", "kept it in the bedroom"],
    "bookcritic": ["praised its humour", "complained of its length", "compared it with a fairy tale", "admired the landscapes", "were puzzled", "welcomed a new voice"],
    "bookcritic2": ["it sold steadily", "sales were poor", "it went through [few] printings", "schools adopted it", "the church condemned it", "it was soon out of print"],
    "manuscript": ["was lost for years", "is written in pencil", "was rejected by several houses", "survives in a private library", "was typed by a neighbour"],
    "edition": ["pocket", "school", "critical", "illustrated", "bilingual", "braille"],
    "opening": ["a storm", "a wedding", "a funeral", "the sale of a horse", "a train journey", "a card game", "a trial"],
    "opening2": ["a letter", "a birth", "a duel", "a fire", "a farewell at a station", "silence"],
    "tour": ["abroad", "the provinces", "neighbouring countries", "school halls", "the festivals of the coast"],
    "stage": ["elaborate lighting", "long improvisations", "home-made costumes", "their brevity", "a brass section", "audience choirs"],
    "namechoice": ["at random from a dictionary", "after a quarrel", "by a drummer who soon left", "from a newspaper headline", "in honour of a café"],
    "craftmusic": ["close harmony", "use of silence", "guitar work", "wordplay", "rhythm section"],
    "compared": ["church music", "old dance bands", "film scores", "sea shanties", "birdsong"],
    "oddmusic": ["a slow waltz", "an accordion", "distorted guitars", "a children's choir", "a drum machine", "a string quartet", "hand claps", "a church organ"],
    "oddmusic2": ["a whispered refrain", "a brass band", "tape loops", "a solo flute", "street noise", "a five-beat rhythm", "a banjo"],
    "studioplace": ["a converted barn", "a disused cinema", "a basement", "a radio studio", "a church hall", "the drummer's kitchen"],
    "cover": ["an empty chair", "a map", "a tram at night", "two dogs", "a burning piano", "a family photograph", "a blank wall"],
    "boxofficemusic": ["reached the top ten", "sold slowly at first", "became a favourite of radio stations", "failed to chart", "was banned by one station", "spent [few] weeks in the charts"],
    "advert": ["soap", "a bank", "mineral water", "a brand of bicycles", "instant soup", "an airline"],
    "colour": ["ochre", "deep blue", "grey", "olive green", "black", "rose"],
    "colour2": ["white", "rust red", "pale yellow", "violet", "brown", "silver"],
    "xray": ["an earlier portrait", "a different sky", "a second figure", "a view of a harbour", "pencil notes"],
    "paintinghistory": ["stolen and recovered in {@year}", "restored in {@year}", "damaged by smoke", "sold at auction more than once", "cut down on the left side", "shown at a world fair"],
    "frame": ["a gilded one", "a plain oak one", "carved with leaves", "heavy and dark"],
}  # fmt: skip

BANKS = {
    "film": (FILM, FILM_ORDER),
    "book": (BOOK, BOOK_ORDER),
    "band": (BAND, BAND_ORDER),
    "album": (ALBUM, ALBUM_ORDER),
    "song": (SONG, SONG_ORDER),
    "painting": (PAINTING, PAINTING_ORDER),
}
