package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	godwit "godwit.dev/godwit/clients/go"
	"godwit.dev/godwit/internal/campaigns/textfile"
)

type campaignFlags struct {
	file, name, title, body, url, icon, image, data                  string
	where, segment, sendAt, rate, spread, quiet, quietZone, ttl, utm string
	priority, collapse, key                                          string
	parseMode, photo, video, animation, audio, document, sticker     string
	chat                                                             string
	album                                                            []string
	template, category                                               string
	channels, recipients, tagsAny, tagsAll, buttons, vars            []string
	silent, noPreview, noTrack, start, detach                        bool

	second variantFlags
}

// add adds the flags of a campaign's definition.
func (f *campaignFlags) add(s *pflag.FlagSet) {
	f.says(s)
	s.StringVar(&f.file, "file", "", "the campaign as JSON; - reads standard input")
	s.StringVar(&f.name, "name", "", "what people call it")
	s.StringVar(&f.icon, "icon", "", "URL of a small picture")
	s.StringVar(&f.image, "image", "", "URL of a large picture")
	s.StringVar(&f.data, "data", "", "JSON for the page or program that gets it")
	s.StringSliceVar(&f.channels, "channel", nil, "only these: "+strings.Join(channelNames(), ", ")+" (default: all that are set up)")
	s.StringSliceVar(&f.recipients, "recipient", nil, "only these recipients")
	s.StringSliceVar(&f.tagsAny, "tag-any", nil, "only those with one of these tags")
	s.StringSliceVar(&f.tagsAll, "tag", nil, "only those with all of these tags")
	s.StringVar(&f.where, "where", "", `only those for whom this holds: city = "Oslo" and age >= 18`)
	s.StringVar(&f.segment, "segment", "", "only those in this stored segment, as it is when the campaign begins")
	s.StringVar(&f.sendAt, "send-at", "", "when to begin: a time, or a duration from now")
	s.StringVar(&f.rate, "rate", "", "most messages: 25/s, 100/m, 1000/h")
	s.StringVar(&f.spread, "spread", "", "spread evenly over this long")
	s.StringVar(&f.quiet, "quiet-hours", "", "send nothing between these times of day: 22:00-08:00")
	s.StringVar(&f.quietZone, "quiet-timezone", "", "time zone of --quiet-hours (default: each subscriber's own)")
	s.StringVar(&f.ttl, "ttl", "", "how long a message may wait for its device")
	s.StringVar(&f.priority, "priority", "", "high, normal or low")
	s.StringVar(&f.collapse, "collapse-key", "", "messages of one key replace each other")
	s.StringVar(&f.utm, "utm", "", "added to URLs: utm_source=news&utm_medium=push")
	s.StringVar(&f.photo, "photo", "", "Telegram: URL or file id of a photo")
	s.StringVar(&f.video, "video", "", "Telegram: URL or file id of a video")
	s.StringVar(&f.audio, "audio", "", "Telegram: URL or file id of an audio file")
	s.StringVar(&f.sticker, "sticker", "", "Telegram: URL or file id of a sticker, which is sent without the text")
	s.StringArrayVar(&f.album, "album", nil, "Telegram: a medium of an album, TYPE=URL or file id; TYPE is photo, video, audio or document (repeatable)")
	s.StringVar(&f.animation, "animation", "", "Telegram: URL or file id of a GIF or a silent video")
	s.StringVar(&f.document, "document", "", "Telegram: URL or file id of a file")
	s.StringVar(&f.chat, "chat", "", "Telegram: for files as @FILE: "+chatHelp)
	s.BoolVar(&f.silent, "silent", false, "Telegram: without a sound")
	s.BoolVar(&f.noTrack, "no-track", false, "do not count who saw and clicked it")
	f.second.add(s)
}

func (p *program) campaignReplace() *cobra.Command {
	var f campaignFlags
	cmd := &cobra.Command{
		Use:   "replace ID",
		Short: "Replace what a campaign says that has not begun",
		Long: `Replace a campaign that has not begun, as a whole: what neither --file nor a flag says has its default afterwards. With
--revision, as godwit campaign show prints it, the command fails if somebody has changed the campaign meanwhile.`,
		Args: exactly("id"),
		RunE: func(cmd *cobra.Command, args []string) error {
			spec, err := f.spec(p.stdin)
			if err != nil {
				return err
			}
			return p.withClient(func(c *godwit.Client) error {
				if err := f.uploadFiles(cmd.Context(), c, spec); err != nil {
					return err
				}
				var now campaignJSON
				if err := c.Call(cmd.Context(), godwit.Call{Method: http.MethodPut, Path: campaignPath(args[0]), Body: spec, IfMatch: atRevision(cmd)}, &now); err != nil {
					return fmt.Errorf("replace campaign %s: %w", args[0], err)
				}
				return p.showCampaign(&now)
			})
		},
	}
	f.add(cmd.Flags())
	revisionFlag(cmd, "campaign", "campaign show")
	return cmd
}

// spec makes the request's body.
func (f *campaignFlags) spec(stdin io.Reader) (map[string]any, error) {
	spec := map[string]any{}
	if f.file != "" {
		if err := readJSONFile(f.file, stdin, &spec); err != nil {
			return nil, err
		}
	}
	content, audience := object(spec, "content"), object(spec, "audience")
	for _, t := range []struct {
		in   map[string]any
		name string
		text string
	}{
		{spec, "name", f.name},
		{spec, "template", f.template},
		{content, "title", f.title},
		{content, "body", f.body},
		{content, "category", f.category},
		{content, "url", f.url},
		{content, "icon", f.icon},
		{content, "image", f.image},
		{audience, "where", f.where},
		{audience, "segment", f.segment},
		{spec, "rate", f.rate},
		{spec, "spread", f.spread},
		{spec, "ttl", f.ttl},
		{spec, "priority", f.priority},
		{spec, "collapse_key", f.collapse},
		{spec, "utm", f.utm},
	} {
		if t.text != "" {
			t.in[t.name] = t.text
		}
	}
	for name, list := range map[string][]string{"channels": f.channels, "recipients": f.recipients, "tags_any": f.tagsAny, "tags_all": f.tagsAll} {
		if len(list) > 0 {
			audience[name] = list
		}
	}
	if err := f.odd(spec, content); err != nil {
		return nil, err
	}
	vars, err := variables(f.vars)
	if err != nil {
		return nil, err
	}
	if vars != nil {
		spec["variables"] = vars
	}
	if err := f.second.into(spec, content); err != nil {
		return nil, err
	}
	if spec["template"] != nil && len(content) == 0 {
		delete(spec, "content")
	}
	return spec, nil
}

// odd adds the flags whose values need conversion.
func (f *campaignFlags) odd(spec, content map[string]any) error {
	if f.data != "" {
		if !json.Valid([]byte(f.data)) {
			return usagef("--data is not JSON")
		}
		content["data"] = json.RawMessage(f.data)
	}
	if f.sendAt != "" {
		at, err := parseTime(f.sendAt, time.Now())
		if err != nil {
			return usagef("--send-at: %w", err)
		}
		spec["send_at"] = at.UTC()
	}
	if f.quiet != "" {
		from, to, ok := strings.Cut(f.quiet, "-")
		if !ok {
			return usagef("--quiet-hours %s: write it like 22:00-08:00", f.quiet)
		}
		quiet := map[string]any{"from": strings.TrimSpace(from), "to": strings.TrimSpace(to)}
		if f.quietZone != "" {
			quiet["timezone"] = f.quietZone
		}
		spec["quiet_hours"] = quiet
	}
	if f.noTrack {
		spec["track"] = false
	}
	return f.telegram(content)
}

// object finds or makes an object inside another.
func object(in map[string]any, name string) map[string]any {
	if o, ok := in[name].(map[string]any); ok {
		return o
	}
	o := map[string]any{}
	in[name] = o
	return o
}

func readJSONFile(name string, stdin io.Reader, into any) error {
	var b []byte
	var err error
	if name == "-" {
		b, err = io.ReadAll(io.LimitReader(stdin, 4<<20))
	} else {
		b, err = os.ReadFile(name)
	}
	if err != nil {
		return fmt.Errorf("read campaign: %w", err)
	}
	d := json.NewDecoder(strings.NewReader(textfile.Plain(b)))
	d.UseNumber() // long numbers keep all their digits
	err = d.Decode(into)
	if err == nil && d.More() {
		err = errors.New("there is more than one JSON value")
	}
	if err != nil {
		return fmt.Errorf("read campaign from %s: %w", name, err)
	}
	return nil
}
