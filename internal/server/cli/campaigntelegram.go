package cli

import (
	"maps"
	"strings"
)

// mediums returns the flags with a medium, by the names of their fields.
func (f *campaignFlags) mediums() map[string]*string {
	return map[string]*string{
		"photo": &f.photo, "video": &f.video, "animation": &f.animation, "audio": &f.audio, "document": &f.document, "sticker": &f.sticker,
	}
}

// telegram adds the fields for Telegram only.
func (f *campaignFlags) telegram(content map[string]any) error {
	said := map[string]any{}
	if f.parseMode != "" {
		said["parse_mode"] = f.parseMode
	}
	for name, medium := range f.mediums() {
		if *medium != "" {
			said[name] = *medium
		}
	}
	for name, on := range map[string]bool{"silent": f.silent, "no_preview": f.noPreview} {
		if on {
			said[name] = true
		}
	}
	var rows []any
	for _, b := range f.buttons {
		text, link, ok := strings.Cut(b, "=")
		if !ok {
			return usagef("--button %s: write it like 'Read on=https://example.org/news'", b)
		}
		field, does := "url", strings.TrimSpace(link)
		if name, reports := strings.CutPrefix(does, "callback:"); reports {
			field, does = "callback", name
		}
		rows = append(rows, []any{map[string]string{"text": strings.TrimSpace(text), field: does}})
	}
	var album []any
	for _, part := range f.album {
		kind, media, ok := strings.Cut(part, "=")
		if !ok {
			return usagef("--album %s: write it like photo=https://example.org/1.jpg", part)
		}
		album = append(album, map[string]string{"type": kind, "media": media})
	}
	if album != nil {
		said["album"] = album
	}
	if rows != nil {
		said["buttons"] = rows
	}
	if len(said) > 0 {
		maps.Copy(object(content, "telegram"), said)
	}
	return nil
}
