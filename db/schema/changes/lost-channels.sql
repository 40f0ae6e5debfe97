-- How far clients had received changes when they lost their connections.
create table if not exists changes.lost_channels (
  identity   text not null,
  position   text not null,
  last_ref   bigint not null,
  expires_at timestamptz not null
);
create index if not exists lost_channels_identity_idx on changes.lost_channels (identity);
create index if not exists lost_channels_expires_at_idx on changes.lost_channels (expires_at);
comment on table changes.lost_channels is $$
The channels of realtime clients that have lost their connections. A client that connects again, perhaps to another
process, continues at its position. The service deletes the rows after a minute. The identity is a digest.
$$;
alter table changes.lost_channels enable row level security;
alter table changes.lost_channels owner to changes_owner;
