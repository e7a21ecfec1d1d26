package words_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/server/admin/words"
)

func TestTheLanguageIsTheChosenOneOrTheNearestThatTheBrowserAccepts(t *testing.T) {
	for _, c := range []struct{ chosen, accepted, want string }{
		{"", "", "en"},
		{"", "de", "de"},
		{"", "de-CH,de;q=0.9,en;q=0.8", "de"},
		{"", "pt-BR,pt;q=0.9", "pt"},
		{"", "pt-PT", "pt"},
		{"", "hi-IN,en-US;q=0.5", "hi"},
		{"", "ja,fr;q=0.5", "fr"},
		{"", "ja", "en"},
		{"", "en-GB,de;q=0.9", "en"},
		{"", "de;q=0,es", "es"},
		{"", "de;q=0", "en"},
		{"", "*", "en"},
		{"", "not a language, at all;;;", "en"},
		{"", strings.Repeat("de-x-", 200), "en"},
		{"fr", "de", "fr"},
		{"xx", "de", "de"},
		{"DE\r\n", "", "en"},
		{"en", "de", "en"},
	} {
		if got := words.Choose(c.chosen, c.accepted); got.Tag != c.want {
			t.Errorf("chosen %q, accepted %.40q: %s, want %s", c.chosen, c.accepted, got.Tag, c.want)
		}
	}
}

func TestTextsTakeArgumentsAndPluralsOfTheirLanguage(t *testing.T) {
	de, fr, hi := words.Tagged("de"), words.Tagged("fr"), words.Tagged("hi")
	for _, c := range []struct{ got, want string }{
		{words.English.T("Delete %s", "anna"), "Delete anna"},
		{de.T("Delete %s", "anna"), "anna löschen"},
		{de.T("Delete %s", "100 % of %s"), "100 % of %s löschen"},
		{de.T("a text of no page"), "a text of no page"},
		{de.T(""), ""},
		{words.English.N(1, "%s day", "%s days"), "1 day"},
		{words.English.N(1500, "%s day", "%s days"), "1,500 days"},
		{de.N(1, "%s day", "%s days"), "1 Tag"},
		{de.N(1500, "%s day", "%s days"), "1.500 Tage"},
		{fr.N(0, "%s day", "%s days"), "0 jour"},
		{fr.N(2, "%s day", "%s days"), "2 jours"},
		{hi.N(150000, "%s hour", "%s hours"), "1,50,000 घंटे"},
		{de.T("%[1]s of %[2]s done", 5, int64(12345)), "5 von 12.345 erledigt"},
		{words.English.T("It has a key that cannot be read: %s.", errors.New("no PEM")), "It has a key that cannot be read: no PEM."},
	} {
		if got := strings.ReplaceAll(c.got, "\u202f", " "); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

func TestNumbersAndTimesHaveTheFormOfTheirLanguage(t *testing.T) {
	at := time.Date(2026, 11, 9, 7, 5, 3, 0, time.FixedZone("", 3600))
	for _, c := range []struct{ tag, number, decimal, when, lasted string }{
		{"en", "1,234,567", "7.2", "9 Nov 2026, 06:05 UTC", "90 minutes"},
		{"de", "1.234.567", "7,2", "09.11.2026, 06:05 UTC", "90 Minuten"},
		{"es", "1.234.567", "7,2", "9/11/2026, 06:05 UTC", "90 minutos"},
		{"fr", "1\u00a0234\u00a0567", "7,2", "09/11/2026, 06:05 UTC", "90 minutes"},
		{"pt", "1.234.567", "7,2", "09/11/2026, 06:05 UTC", "90 minutos"},
		{"hi", "12,34,567", "7.2", "9/11/2026, 06:05 UTC", "90 मिनट"},
	} {
		l := words.Tagged(c.tag)
		if number, decimal, when, lasted := l.Number(1234567), l.Decimal(7.24), l.Time(at), l.Lasted(90*time.Minute); number != c.number || decimal != c.decimal || when != c.when || lasted != c.lasted {
			t.Errorf("%s: %q %q %q %q", c.tag, number, decimal, when, lasted)
		}
	}
	if got := words.English.Decimal(math.NaN()); got != "–" {
		t.Errorf("no number is %q", got)
	}
	for f, want := range map[float64]string{0: "0", 3: "3", 2.345: "2.3", 99.96: "100", 1234.56: "1,235"} {
		if got := words.English.Decimal(f); got != want {
			t.Errorf("%v is %q, want %q", f, got, want)
		}
	}
}

func TestDurationsHaveTheLargestUnitThatIsPreciseEnough(t *testing.T) {
	for d, want := range map[time.Duration]string{
		250 * time.Millisecond: "250 ms", 119 * time.Second: "119 s", 2 * time.Minute: "2 minutes", 2 * time.Hour: "2 hours", 47 * time.Hour: "47 hours", 48 * time.Hour: "2 days",
	} {
		if got := words.English.Lasted(d); got != want {
			t.Errorf("%s is %q, want %q", d, got, want)
		}
	}
}
