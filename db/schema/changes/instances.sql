-- The services that read changes from a replication slot of their own.
create table if not exists changes.instances (
  slot    text primary key,
  seen_at timestamptz not null default now()
);
comment on table changes.instances is $$
The replication slots of the services. A service renews its row each minute. Another one drops the slot of a service
that has not done so for 10 minutes, because the server keeps the write-ahead log for it.
$$;
alter table changes.instances enable row level security;
alter table changes.instances owner to changes_owner;
