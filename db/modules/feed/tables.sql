-- Committed changes of rows, for subscribers.
create schema changes;
alter schema changes owner to changes_owner;
comment on schema changes is 'Committed changes of rows, for subscribers; not served.';

-- The services that read changes from a replication slot of their own.
create table changes.instances (
  slot    text primary key,
  seen_at timestamptz not null default now()
);
comment on table changes.instances is $$
The replication slots of the services. A service renews its row each minute. Another one drops the slot of a service
that has not done so for 10 minutes, because the server keeps the write-ahead log for it.
$$;
alter table changes.instances enable row level security;
alter table changes.instances owner to changes_owner;

-- How far clients had received changes when they lost their connections.
create table changes.lost_channels (
  identity   text not null,
  position   text not null,
  last_ref   bigint not null,
  expires_at timestamptz not null
);
create index lost_channels_identity_idx on changes.lost_channels (identity);
create index lost_channels_expires_at_idx on changes.lost_channels (expires_at);
comment on table changes.lost_channels is $$
The channels of realtime clients that have lost their connections. A client that connects again, perhaps to another
process, continues at its position. The service deletes the rows after a minute. The identity is a digest.
$$;
alter table changes.lost_channels enable row level security;
alter table changes.lost_channels owner to changes_owner;
