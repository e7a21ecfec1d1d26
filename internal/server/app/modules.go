package app

import (
	"errors"
	"fmt"

	"godwit.dev/godwit/internal/gateway/natsgate"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/server/app/feeds"
	"godwit.dev/godwit/internal/server/app/figures"
	"godwit.dev/godwit/internal/server/app/sending"
	"godwit.dev/godwit/internal/server/config"
	"godwit.dev/godwit/internal/server/module"
	"godwit.dev/godwit/internal/store"
)

// Modules returns the modules of every server, in the order in which they start.
func Modules() []module.Module {
	return []module.Module{
		natsgate.Module(),
	}
}

// Admit makes the channels that modules bring known to the process, and refuses kinds whose names are taken.
func Admit(list []module.Module) error {
	owners := make(map[string]string)
	take := func(owner, what, name string) error {
		if other, taken := owners[what+name]; taken {
			return fmt.Errorf("%s brings the %s %s, which %s has", owner, what, name, other)
		}
		owners[what+name] = owner
		return nil
	}
	errs := []error{}
	for ch := range sending.Kinds(sending.KindOptions{}, nil) {
		errs = append(errs, take("the server", "channel", string(ch)))
	}
	for name := range feeds.SourceKinds(nil, nil) {
		errs = append(errs, take("the server", "source", name))
	}
	for name := range feeds.SinkKinds(nil) {
		errs = append(errs, take("the server", "sink", name))
	}
	for _, m := range list {
		owner := "module " + m.Name
		for name := range m.Sources {
			errs = append(errs, take(owner, "source", name))
		}
		for name := range m.Sinks {
			errs = append(errs, take(owner, "sink", name))
		}
		for _, c := range m.Channels {
			err := take(owner, "channel", string(c.Channel))
			if err == nil {
				if err = push.Define(c.Definition); err != nil {
					err = fmt.Errorf("%s brings %w", owner, err)
				}
			}
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Sections are the settings that modules bring.
func Sections(list []module.Module) (sections []config.Section) {
	for _, m := range list {
		if m.Settings != nil {
			sections = append(sections, config.Section{Module: m.Name, Settings: m.Settings})
		}
	}
	return sections
}

// tablesOf returns the tables of modules.
func tablesOf(list []module.Module) (tables []store.Tables) {
	for _, m := range list {
		if m.Tables.SQLite != nil {
			tables = append(tables, store.Tables{Module: m.Name, SQLite: m.Tables.SQLite, Postgres: m.Tables.Postgres})
		}
	}
	return tables
}

// services returns the services that modules may use.
func services(s *figures.Server) *module.Services {
	c := s.Core
	return &module.Services{
		Log: s.Log, Now: s.Stores.Clock, Node: s.Node, Version: s.Version, Access: s.Access,
		Mailbox: c.Mailbox, Publisher: c.Publisher, Hub: c.Hub, Objects: c.Objects, Topics: c.Topics, Bus: c.Bus, Events: s.Stores.Events,
		Gate: s.Conns.Gate, Hellos: c.Hellos, Publishes: s.Conns.Publish, Draining: s.Draining, Own: s.Own,
		Databases:  s.Stores.Database,
		ListenAddr: s.Settings.Listens,
	}
}
