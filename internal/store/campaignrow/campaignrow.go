// Package campaignrow defines the contents of rows of campaigns, their deliveries and counters. All databases have the same
// contents, since rows are copied from one to another.
package campaignrow

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"godwit.dev/godwit/internal/campaigns/campaign"
	"godwit.dev/godwit/internal/sending/push"
)

// AllChannels are the numbers of all channels, for the text of a query.
func AllChannels() string {
	var numbers []string
	for _, d := range push.All() {
		numbers = append(numbers, strconv.Itoa(int(d.Number)))
	}
	return strings.Join(numbers, ", ")
}

// Channel returns the number of a channel; 0: it has none.
func Channel(ch push.Channel) int16 {
	if d := ch.Find(); d != nil {
		return d.Number
	}
	return 0
}

// ChannelOf returns the channel with a number; empty: there is none.
func ChannelOf(number int16) push.Channel {
	if d := push.Numbered(number); d != nil {
		return d.Channel
	}
	return ""
}

// Columns lists the columns of a campaign.
const Columns = `num, id, app, state, detail, spec, channels, send_at, created_at, started_at, finished_at,
	enumerated, cursor, recall, recall_from`

// Busy is the condition for campaigns that still have work to do.
const Busy = `(state IN ('scheduled', 'running', 'recalling', 'correcting') OR state = 'cancelled' AND EXISTS (
	SELECT 1 FROM campaign_count k WHERE k.campaign = num AND k.what = 0 AND k.n > 0))`

// Unbegun is the condition for campaigns that have not begun and still may.
const Unbegun = `started_at = 0 AND state IN ('draft', 'scheduled', 'paused')`

// OfCampaign returns conditions for the rows that belong to a campaign, except its deliveries; the campaign's number must follow each
// condition.
func OfCampaign() []string {
	return []string{"campaign_count WHERE campaign", "campaign_day WHERE campaign", "campaign_key WHERE campaign", "campaign WHERE num"}
}

// KeyLife is the time for which an idempotency key is stored.
const KeyLife = 24 * time.Hour

// JSON returns the parts of a campaign that are stored as JSON.
func JSON(c *campaign.Campaign) (spec, channels string, err error) {
	b, err := json.Marshal(&c.Spec)
	if err != nil {
		return "", "", err
	}
	list, err := json.Marshal(append([]push.Channel{}, c.Channels...))
	return string(b), string(list), err
}

// ReadJSON reads what JSON wrote.
func ReadJSON(c *campaign.Campaign, spec, channels []byte) error {
	err := json.Unmarshal(spec, &c.Spec)
	if err == nil {
		err = json.Unmarshal(channels, &c.Channels)
	}
	if err != nil {
		return fmt.Errorf("read campaign %s: its row is damaged: %w", c.ID, err)
	}
	return nil
}

// NewTrackKey makes an app's tracking secret.
func NewTrackKey() []byte {
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // never fails
	return secret
}
