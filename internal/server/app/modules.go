package app

import (
	"errors"
	"fmt"

	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/server/app/web"
	"godwit.dev/godwit/internal/server/config"
	"godwit.dev/godwit/internal/server/module"
	"godwit.dev/godwit/internal/store"
)

// Admit adds the channels of modules to those of the process, and refuses a name that two modules have.
func Admit(list []module.Module) error {
	owners := make(map[string]string)
	take := func(owner, what, name string) error {
		if other, taken := owners[what+name]; taken {
			return fmt.Errorf("module %s brings the %s %s, which module %s has", owner, what, name, other)
		}
		owners[what+name] = owner
		return nil
	}
	var errs []error
	for _, m := range list {
		for name := range m.Sources {
			errs = append(errs, take(m.Name, "source", name))
		}
		for name := range m.Sinks {
			errs = append(errs, take(m.Name, "sink", name))
		}
		for _, c := range m.Channels {
			if err := push.Define(c.Definition); err != nil {
				errs = append(errs, fmt.Errorf("module %s brings a channel that another has: %w", m.Name, err))
			}
			errs = append(errs, take(m.Name, "channel", string(c.Channel)))
		}
	}
	return errors.Join(errs...)
}

// Sections returns the settings of modules.
func Sections(list []module.Module) (sections []config.Section) {
	for _, m := range list {
		if m.Settings != nil {
			sections = append(sections, config.Section{Module: m.Name, Settings: m.Settings})
		}
	}
	return sections
}

// Tables returns the tables of modules.
func Tables(list []module.Module) (tables []store.Tables) {
	for _, m := range list {
		if m.Tables.SQLite != nil {
			m.Tables.Module = m.Name
			tables = append(tables, m.Tables)
		}
	}
	return tables
}

// services returns the services that modules may use.
func services(w *web.Web, commands func() []module.Command) *module.Services {
	s, c := w.Server, w.Core
	return &module.Services{
		Log: s.Log, Now: s.Stores.Clock, Node: s.Node, Version: s.Version, Access: s.Access,
		Mailbox: c.Mailbox, Publishing: module.Publishing{Publisher: c.Publisher, Digests: c.Digests}, Hub: c.Hub, Objects: c.Objects, Topics: c.Topics, Requests: c.Requests, Bus: c.Bus, Events: s.Stores.Events,
		Doors:    module.Doors{PublicURL: s.Settings.PublicURL, Data: s.Settings.Data, Web: w.Handler, Gate: s.Conns.Gate, Reactor: s.Conns.Reactor, Hellos: c.Hellos, Publishes: s.Conns.Publish},
		Draining: s.Draining, Own: s.Own,
		Databases:  s.Stores.Database,
		ReadDraft:  web.ReadDraft,
		Commands:   commands,
		ListenAddr: s.Settings.Listens,
	}
}
