"""Sentences in European languages, written for these tests, with characters outside ASCII."""

# ruff: noqa: RUF001
SENTENCES = {
    "English": (
        "It’s a naïve café in München, and the owner’s fiancée bakes the best soufflé in town.",
        "“I don’t think we’ve met,” she said — and that wasn’t true, of course.",
        "The train from Zürich to Málaga takes about 20 hours; a ticket costs €240 or £205.",
        "My neighbour’s résumé says he’s fluent in three languages, but I’ve never heard him speak one.",
        "We’ll serve crème brûlée at 6 o’clock, so don’t be late…",
        "“You can’t be serious!” he cried, and the children’s laughter filled the room.",
    ),
    "German": (
        "Können Sie mir bitte sagen, wie spät es ist? Ich muss pünktlich zur Prüfung in der Universität sein.",
        "Die Straße war schmal, und die Häuser hatten schöne grüne Fensterläden.",
        "Meine Großmutter erzählte früher oft, daß sie während des Krieges in einer Bäckerei arbeitete.",
        "Übermorgen fahren wir für drei Tage nach Österreich, um die Berge zu genießen.",
        "„Das hätte ich nicht gedacht“, sagte er und öffnete die Tür.",
    ),
    "French": (
        "Où êtes-vous allés l’été dernier ? Nous avons passé deux semaines à la plage près de Saint-Malo.",
        "Après le déjeuner, ma sœur a préparé un gâteau très léger avec des fraises fraîches.",
        "Le théâtre était déjà fermé quand nous sommes arrivés à l’entrée.",
        "Ça va bientôt être l’hiver, et les élèves espèrent qu’il neigera à Noël.",
    ),
    "Spanish": (
        "¿Dónde está la estación más cercana? El último tren sale mañana a las ocho.",
        "El niño pequeño soñaba con ser músico y tocaba la guitarra todos los días después del colegio.",
        "¡Qué lástima! Mi tío perdió el avión y llegará a Bogotá el miércoles por la mañana.",
    ),
    "Portuguese": (
        "Não sei se amanhã haverá reunião, porque o diretor está de férias até segunda-feira.",
        "A situação económica do país é difícil, mas a população mantém a esperança.",
        "Você já experimentou o pão de queijo que minha avó faz aos sábados?",
    ),
    "Italian": (
        "Perché non vieni con noi? La città è più bella di sera, e c’è già la luna.",
        "Così finì la serata: nessuno sapeva dove fosse andato il papà.",
    ),
    "Swedish": (
        "Jag åker till Göteborg på lördag för att hälsa på min bror och hans två små barn.",
        "Det är för sent att ångra sig nu, men vi kan åtminstone försöka göra något åt saken.",
    ),
    "Danish": ("Børnene løb ned ad gaden, mens deres mor købte æbler og brød på torvet i København.",),
    "Finnish": ("Hän lähti töistä myöhään, mutta ehti vielä viimeiseen junaan ennen yötä.",),
    "Polish": (
        "Wczoraj wieczorem poszliśmy na długi spacer, a później piliśmy gorącą herbatę w małej kawiarni.",
        "Proszę mi powiedzieć, gdzie znajduje się najbliższa poczta i o której godzinie zamykają.",
    ),
    "Czech": (
        "Dnes večer půjdeme do divadla, protože můj přítel dostal dva lístky zdarma.",
        "Příští týden začíná škola a děti už mají připravené nové sešity.",
    ),
    "Hungarian": ("Tegnap este nagyon későn értem haza, mert az utolsó busz már elment, és gyalog kellett jönnöm.",),
    "Romanian": (
        "Mâine dimineață mergem la piață să cumpărăm roșii, brânză și pâine proaspătă.",
        "Astăzi este o zi frumoasă, așa că și copiii se joacă în grădină până seara.",
    ),
    "Turkish": ("Yarın sabah erken kalkıp çocukları okula götüreceğim, sonra da işe gideceğim.",),
}
