package app

import (
	"godwit.dev/godwit/internal/gateway/natsgate"
	"godwit.dev/godwit/internal/server/app/figures"
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

// Sections returns the settings of modules.
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
