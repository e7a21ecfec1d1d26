package campaignrow

import (
	"strings"
	"testing"
)

func TestAnErasedRecipientLeavesAnAudienceThatIsNotEverybody(t *testing.T) {
	spec, ok, err := WithoutRecipient(`{"name":"a","ttl":86400000000000,"audience":{"recipients":["anna"],"tags_any":["x"]}}`, "anna")
	if err != nil || !ok || strings.Contains(spec, "anna") || !strings.Contains(spec, `"recipients":["erased.`) || !strings.Contains(spec, `"ttl":86400000000000`) || !strings.Contains(spec, `"tags_any":["x"]`) {
		t.Errorf("%s, %t, %v", spec, ok, err)
	}
	for _, spec := range []string{`{"audience":{"recipients":["annabel"]}}`, `{"name":"anna"}`, `{"audience":{}}`} {
		if _, ok, err := WithoutRecipient(spec, "anna"); ok || err != nil {
			t.Errorf("%s is changed (%v)", spec, err)
		}
	}
}
