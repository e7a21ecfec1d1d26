package textindex

import (
	"context"
	"slices"
	"strings"
	"testing"
)

func index(t *testing.T, texts ...Text) *Index {
	t.Helper()
	x, err := New(texts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := x.Close(); err != nil {
			t.Error(err)
		}
	})
	return x
}

func TestTextsAreFoundByAllTheirWords(t *testing.T) {
	x := index(t,
		Text{Title: "Publish", Heading: "Delayed", Body: "A notification with send_at is sent later."},
		Text{Title: "Escalation", Heading: "Steps", Body: "A step starts when its time has passed."},
		Text{Title: "Hooks", Heading: "Retries", Body: "An escalation emits events. Überwachung."},
	)
	for words, want := range map[string][]int{
		"escalation":         {1, 2}, // a title counts more than a body
		"notifications sent": {0},    // other forms of the words
		"send_at":            {0},
		"--send-at":          {0},
		"escal":              {1, 2},
		"überwachung":        {2},
		"step hooks":         nil,
		`"`:                  nil,
		"AND OR NOT NEAR(":   nil,
		"":                   nil,
		" * ^ : ":            nil,
	} {
		found, err := x.Search(t.Context(), words, 10)
		var got []int
		for _, m := range found {
			got = append(got, m.Text)
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q finds %v, %v, not %v", words, got, err, want)
		}
	}
}

func TestAnExcerptShowsWhatMatched(t *testing.T) {
	x := index(t, Text{Title: "a", Body: strings.Repeat("before ", 100) + "the needle lies here" + strings.Repeat(" after", 100)})
	found, err := x.Search(t.Context(), "needles", 1)
	if err != nil || len(found) != 1 || len(found[0].Excerpt) != 3 || found[0].Excerpt[1] != "needle" || len(found[0].Excerpt[0]) > 200 {
		t.Errorf("%+v, %v", found, err)
	}
}

func TestASearchIsBoundedAndCanBeEnded(t *testing.T) {
	x := index(t, Text{Body: "word"}, Text{Body: "word"}, Text{Body: "word"})
	if found, err := x.Search(t.Context(), strings.Repeat("word ", 10_000), 2); err != nil || len(found) != 2 {
		t.Errorf("%v, %v", found, err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := x.Search(ended, "word", 2); err == nil {
		t.Error("a search goes on after its context has ended")
	}
	if found, err := x.Search(t.Context(), "word", 2); err != nil || len(found) != 2 {
		t.Errorf("after an ended search: %v, %v", found, err)
	}
}
