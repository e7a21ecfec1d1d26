package mailboxdb

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const (
	// An hour is sealed once 1/sealAfter of an hour has passed after its end: by then all commits that wrote to it have ended.
	sealAfter = 12
	// sealWithin bounds the sealing of one hour, which may copy tens of millions of rows.
	sealWithin = 15 * time.Minute
	// sealIdle is how long a sealing node may send nothing. After that the server ends its session, and another node may seal.
	sealIdle = time.Minute
	// moveSlice is how many open copies are moved in one commit, and moveMost how many are listed at a time.
	moveSlice = 500
	moveMost  = 50_000
	// lockWait bounds how long locking or dropping a table waits for the table's users. It is short because later users queue behind it.
	// The lock is tried lockTries times; the pauses of lockPause between tries let those users continue.
	lockWait  = "SET LOCAL lock_timeout = '200ms'"
	lockTries = 50
	lockPause = 200 * time.Millisecond
)

// seal seals the oldest hour if it is past, unless another node is doing so. Copies that are still open move on to the current hour,
// with their position; settled ones leave stubs in the table of the day; and the hour's tables are dropped whole, which costs neither
// vacuum nor time. It reports whether an hour was sealed.
func (s *Store) seal(ctx context.Context) (sealed bool, err error) {
	if err := s.tables.ensure(ctx); err != nil {
		return false, err
	}
	set := s.tables.set.Load()
	hour, length := set.hours[0], s.cfg.hour.Milliseconds()
	if s.nowMS() < (hour+1)*length+length/sealAfter {
		return false, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, sealWithin, fmt.Errorf("it took more than %s", sealWithin))
	defer cancel()
	conn, err := s.db.Pool().Acquire(ctx)
	if err != nil {
		return false, err
	}
	defer conn.Release()
	// The session holds the advisory lock: the lock spans several transactions, and ends with the connection if this node dies. A node that
	// is stopped for longer than sealIdle loses its session, and the lock with it.
	if _, err := conn.Exec(ctx, fmt.Sprintf("SET idle_session_timeout = %d", sealIdle.Milliseconds())); err != nil {
		return false, err
	}
	defer func() {
		if _, err := conn.Exec(context.WithoutCancel(ctx), "SET idle_session_timeout = 0"); err != nil {
			_ = conn.Conn().Close(context.WithoutCancel(ctx))
		}
	}()
	if err := conn.QueryRow(ctx, "SELECT pg_try_advisory_lock($1, $2)", int32(lockSeal), s.tables.lockKey()).Scan(&sealed); err != nil || !sealed {
		return false, err
	}
	defer func() {
		if _, uerr := conn.Exec(context.WithoutCancel(ctx), fmt.Sprintf("SELECT pg_advisory_unlock(%d, %d)", lockSeal, s.tables.lockKey())); uerr != nil {
			_ = conn.Conn().Close(context.WithoutCancel(ctx))
		}
	}()
	if err := s.tables.ensure(ctx); err != nil { // another node may have sealed it a moment ago
		return false, err
	}
	if set = s.tables.set.Load(); set.hours[0] != hour {
		return true, nil
	}
	for left := true; left; {
		if err := s.moveOpen(ctx, conn.Conn(), hour, set.hours[len(set.hours)-1]); err != nil {
			return false, err
		}
		for attempt := 1; ; attempt++ {
			if left, err = s.sealHour(ctx, conn.Conn(), set, hour); err == nil {
				break
			}
			if attempt == tries || !inTheWay(err) {
				return false, err
			}
		}
	}
	if err := s.clearSteps(ctx); err != nil {
		return true, err
	}
	return true, s.tables.ensure(ctx)
}

// planFreely allows a transaction to read whole tables, which other statements of the store never should.
const planFreely = "SET LOCAL enable_hashjoin = on; SET LOCAL enable_seqscan = on; SET LOCAL enable_bitmapscan = on; SET LOCAL work_mem = '64MB'"

// moveOpen moves the open copies of an hour to another one.
func (s *Store) moveOpen(ctx context.Context, conn *pgx.Conn, from, _ int64) error {
	for {
		keys, positions, err := openIn(ctx, conn, from)
		if err != nil || len(keys) == 0 {
			return err
		}
		for n := 0; n < len(keys); n += moveSlice {
			to := min(len(keys), n+moveSlice)
			err := s.db.Do(ctx, "move open copies", func(ctx context.Context, tx pgx.Tx) error {
				set, err := s.tables.now(ctx)
				if err != nil {
					return err
				}
				if _, err := tx.Exec(ctx, waitForRows); err != nil {
					return err
				}
				return moveSome(ctx, tx, from, max(set.hours[0], s.tables.hourAt(s.nowMS())), keys[n:to], positions[n:to])
			})
			if err != nil {
				return err
			}
		}
	}
}

// openIn lists open copies of an hour.
func openIn(ctx context.Context, conn *pgx.Conn, hour int64) (keys, positions []int64, err error) {
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, planFreely); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, fmt.Sprintf("SELECT n.recipient, n.pos FROM note_%d n JOIN pending p ON p.recipient = n.recipient AND p.pos = n.pos ORDER BY 1, 2 LIMIT %d", hour, moveMost))
		if err != nil {
			return err
		}
		var key, pos int64
		_, err = pgx.ForEachRow(rows, []any{&key, &pos}, func() error {
			keys, positions = append(keys, key), append(positions, pos)
			return nil
		})
		return err
	})
	return keys, positions, err
}

// moveSome moves those of the given copies that are still open. It takes the recipients' locks, as settling does.
func moveSome(ctx context.Context, tx pgx.Tx, from, to int64, keys, positions []int64) error {
	if from == to {
		return errors.New("the hour to be sealed is not past")
	}
	a := &asking{}
	a.ask(lockRecipients, nil, slices.Compact(slices.Clone(keys)))
	const moved = `(SELECT n.* FROM unnest($1::bigint[], $2::bigint[]) AS q(recipient, pos)
		JOIN pending p ON ` + openAt + ` JOIN note_%[1]d n ON n.recipient = q.recipient AND n.pos = q.pos)`
	a.ask(fmt.Sprintf("INSERT INTO content_%[2]d SELECT c.* FROM content_%[1]d c WHERE c.key IN (SELECT n.content FROM "+moved+" AS n) ON CONFLICT (key) DO NOTHING", from, to),
		nil, keys, positions)
	a.ask(fmt.Sprintf("INSERT INTO note_%[2]d SELECT n.* FROM "+moved+" AS n", from, to), nil, keys, positions)
	a.ask(fmt.Sprintf(`DELETE FROM note_%[1]d n USING unnest($1::bigint[], $2::bigint[]) AS q(recipient, pos), note_%[2]d t
		WHERE n.recipient = q.recipient AND n.pos = q.pos AND t.recipient = q.recipient AND t.pos = q.pos`, from, to), nil, keys, positions)
	return a.send(ctx, tx.Conn())
}

// sealHour makes stubs of an hour's settled copies and drops its tables. left reports that the hour still has open copies, such as reopened
// ones, which must be moved first.
func (s *Store) sealHour(ctx context.Context, conn *pgx.Conn, set *tableSet, hour int64) (left bool, err error) {
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		// From here on no other transaction can change the outcome of this hour's copies; see askRevive.
		if err := lockPatiently(ctx, tx, fmt.Sprintf("LOCK TABLE note_%d IN EXCLUSIVE MODE", hour)); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, planFreely); err != nil {
			return err
		}
		err := tx.QueryRow(ctx, fmt.Sprintf("SELECT EXISTS (SELECT FROM note_%d n JOIN pending p ON p.recipient = n.recipient AND p.pos = n.pos)", hour)).Scan(&left)
		if err != nil || left {
			return err
		}
		day := dayAt(s.nowMS())
		if !slices.Contains(set.days, day) {
			if err := makeDay(ctx, tx, day); err != nil {
				return err
			}
		}
		// Sorted by id, so that the rows of one lookup are close together and the index grows in order.
		_, err = tx.Exec(ctx, fmt.Sprintf(`INSERT INTO stub_%[2]d (pos, recipient, seq, id_key, created_at, send_at, expires_at, hash, settled_at, delivered_at, attempts, flags, status, id)
			SELECT n.pos, n.recipient, coalesce(d.seq, n.seq), n.id_key, n.created_at, n.send_at, n.expires_at, n.hash, d.settled_at, d.delivered_at, d.attempts, n.flags, d.status, n.id
			FROM note_%[1]d n JOIN (`+all(set.dones, "SELECT * FROM done_%[1]d")+`) AS d ON d.pos = n.pos
			WHERE d.settled_at >= (SELECT pruned_until FROM retention) AND EXISTS (SELECT FROM recipient r WHERE r.key = n.recipient)
			ORDER BY n.id_key, n.recipient`, hour, day))
		if err != nil {
			return err
		}
		drop := fmt.Sprintf("DROP TABLE note_%[1]d, content_%[1]d; UPDATE hour SET sealed = true WHERE number = %[1]d", hour)
		for _, d := range set.dones { // by now all copies that settled in an earlier hour are stubs
			if d < hour {
				drop += fmt.Sprintf("; DROP TABLE done_%[1]d; DELETE FROM hour WHERE number = %[1]d", d)
			}
		}
		return lockPatiently(ctx, tx, drop)
	})
	return left, err
}

// lockPatiently runs statements that lock or drop tables, and repeats them while a reader or autovacuum uses these tables.
func lockPatiently(ctx context.Context, tx pgx.Tx, sql string) error {
	for try := 1; ; try++ {
		err := locked(ctx, tx, sql)
		var pg *pgconn.PgError
		if err == nil || try == lockTries || !errors.As(err, &pg) || pg.Code != "55P03" {
			return err
		}
		time.Sleep(lockPause)
	}
}

// locked runs statements with a limit on waiting for locks, since later users of the tables queue behind them.
func locked(ctx context.Context, tx pgx.Tx, sql string) error {
	return pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error { // a savepoint
		if _, err := tx.Exec(ctx, lockWait); err != nil {
			return err
		}
		_, err := tx.Conn().PgConn().Exec(ctx, sql).ReadAll()
		return err
	})
}
