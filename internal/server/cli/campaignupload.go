package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	godwit "godwit.dev/godwit/clients/go"
	"godwit.dev/godwit/internal/sending/push"
)

// mediumNames lists the kinds of files that Telegram takes.
func mediumNames() string {
	var names []string
	for _, m := range push.TelegramMediums {
		names = append(names, m.Name)
	}
	return strings.Join(names, ", ")
}

const chatHelp = "a chat with the bot, like 42 or @channel: the file is sent there without a sound, and its message is deleted again"

func (p *program) campaignUpload() *cobra.Command {
	var kind, chat string
	cmd := &cobra.Command{
		Use:   "upload FILE",
		Short: "Give Telegram a file, which campaigns then name by its id",
		Long: `Give Telegram a file, which campaigns and templates then name by its id. Telegram takes files in chats only: the file goes
to the chat without a sound, and its message is deleted again. The id is valid for this bot and for media of this type.`,
		Args: exactly("file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.withClient(func(c *godwit.Client) error {
				id, err := uploadMedium(cmd.Context(), c, kind, args[0], chat)
				if err != nil {
					return err
				}
				if p.json {
					return p.line(map[string]string{"file_id": id})
				}
				_, err = fmt.Fprintln(p.stdout, clean(id))
				return err
			})
		},
	}
	cmd.Flags().StringVar(&kind, "type", "document", "what it is: "+mediumNames())
	cmd.Flags().StringVar(&chat, "chat", "", chatHelp)
	return cmd
}

// uploadMedium gives Telegram a file of this machine, and returns its id.
func uploadMedium(ctx context.Context, c *godwit.Client, kind, path, chat string) (id string, err error) {
	if chat == "" {
		return "", usagef("--chat is needed to upload %s: %s", path, chatHelp)
	}
	address, err := json.Marshal(map[string]string{"chat_id": chat})
	if err != nil {
		return "", err
	}
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("upload a file: %w", err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return "", fmt.Errorf("upload a file: %w", err)
	}
	if !st.Mode().IsRegular() || st.Size() == 0 {
		return "", fmt.Errorf("upload %s: it is empty or no file", path)
	}
	id, err = c.UploadFile(ctx, string(push.Telegram), &godwit.File{Type: kind, Name: filepath.Base(path), Address: address, Size: st.Size(), Body: f})
	if err != nil {
		return "", fmt.Errorf("upload %s as %s: %w", path, kind, err)
	}
	return id, nil
}

// notFile refuses a medium that is a file of this machine: Telegram would take its name for a file id, and refuse every message.
func notFile(kind, medium string) error {
	if st, err := os.Stat(medium); medium == "" || err != nil || !st.Mode().IsRegular() {
		return nil // it is a URL or an id
	}
	return withHint(usagef("%s %s is a file of this machine, and neither a URL nor the id of a file", kind, medium), "write @%s to upload it", medium)
}

// uploadFiles gives Telegram the files that flags name as @FILE, and puts their ids into the campaign.
func (f *campaignFlags) uploadFiles(ctx context.Context, c *godwit.Client, spec map[string]any) error {
	files := false
	upload := func(kind string, medium *string) (err error) {
		path, ok := strings.CutPrefix(*medium, "@")
		if !ok {
			return notFile(kind, *medium)
		}
		files = true
		*medium, err = uploadMedium(ctx, c, kind, path, f.chat)
		return err
	}
	for kind, medium := range f.mediums() {
		if err := upload(kind, medium); err != nil {
			return err
		}
	}
	for i, part := range f.album {
		kind, medium, _ := strings.Cut(part, "=") // spec has refused parts without the sign
		if err := upload(kind, &medium); err != nil {
			return err
		}
		f.album[i] = kind + "=" + medium
	}
	if !files {
		return nil
	}
	return f.telegram(object(spec, "content"))
}
