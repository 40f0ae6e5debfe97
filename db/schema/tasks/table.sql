-- Work that a client does not wait for: who asked for what, and what became of it.
create table tasks.tasks (
  id           uuid primary key default gen_random_uuid(),
  owner        text not null, -- the user's id, or the role of callers who are no user; no foreign key: a task may delete its user
  role         text not null,
  claims       jsonb not null,
  kind         text not null,
  request      json, -- null once it has ended: it may hold secrets, and nobody needs it any more
  status       text not null default 'pending',
  done         bigint not null default 0,
  total        bigint, -- null when it is not known
  estimate     integer not null, -- seconds
  result_limit bigint, -- bytes; null until it was begun
  run          integer not null default 0, -- counts how often it was begun: only the latest run may end it
  attempts     integer not null default 0, -- the same without the runs that a stop of the service has ended
  error        json,
  created_at   timestamptz not null default now(),
  started_at   timestamptz,
  finished_at  timestamptz,

  constraint tasks_status_known check (status in ('pending', 'running', 'succeeded', 'failed', 'cancelled')),
  constraint tasks_finished_at_known check ((finished_at is null) = (status in ('pending', 'running'))),
  constraint tasks_total_range check (total > 0)
);
-- A caller's own tasks, newest first.
create index tasks_owner_created_at_id_idx on tasks.tasks (owner, created_at desc, id desc);
-- How many tasks of a caller have not ended.
create index tasks_owner_unfinished_idx on tasks.tasks (owner) where finished_at is null;
-- How long tasks of a kind have taken lately.
create index tasks_kind_finished_at_idx on tasks.tasks (kind, finished_at desc) where status = 'succeeded';
-- Tasks that are old enough to be forgotten.
create index tasks_finished_at_idx on tasks.tasks (finished_at);

-- What tasks have given, in parts. Only the transaction of the work writes here: when it fails nothing is left.
create table tasks.results (
  id      bigint generated always as identity primary key,
  task_id uuid not null references tasks.tasks on delete cascade,
  part    json not null,
  bytes   bigint not null
);
-- The parts of a task in order.
create index results_task_id_id_idx on tasks.results (task_id, id);

comment on table tasks.tasks is 'Work that a client does not wait for.';
comment on table tasks.results is 'What tasks have given, in parts.';

-- graphile-worker would make this table together with its schema, which tasks_owner may not.
create table if not exists graphile_worker.migrations (
  id       integer primary key,
  ts       timestamptz not null default now(),
  breaking boolean not null default false
);
