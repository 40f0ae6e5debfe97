-- Asynchronous work: requests whose clients do not wait for the result.
create table tasks.tasks (
  id           uuid primary key default gen_random_uuid(),
  -- A user's id, or the role of a caller who is not a user. Not a foreign key, because a task may delete its user.
  owner        text not null,
  role         text not null,
  claims       jsonb not null,
  kind         text not null,
  request      json, -- null after the end, because a request may contain secrets
  status       text not null default 'pending',
  done         bigint not null default 0,
  total        bigint, -- null if unknown
  estimate     integer not null, -- seconds
  result_limit bigint, -- bytes; null until the first attempt
  run          integer not null default 0, -- the number of the latest attempt, which alone may end the task
  attempts     integer not null default 0, -- without those that ended because the service stopped
  error        json,
  created_at   timestamptz not null default now(),
  started_at   timestamptz,
  finished_at  timestamptz,

  constraint tasks_status_known check (status in ('pending', 'running', 'succeeded', 'failed', 'cancelled')),
  constraint tasks_finished_at_known check ((finished_at is null) = (status in ('pending', 'running'))),
  constraint tasks_total_range check (total > 0)
);
-- The tasks of a caller, newest first.
create index tasks_owner_created_at_id_idx on tasks.tasks (owner, created_at desc, id desc);
-- The number of unfinished tasks of a caller.
create index tasks_owner_unfinished_idx on tasks.tasks (owner) where finished_at is null;
-- The latest tasks of a kind, for estimates.
create index tasks_kind_finished_at_idx on tasks.tasks (kind, finished_at desc) where status = 'succeeded';
-- The tasks that are due to be deleted.
create index tasks_finished_at_idx on tasks.tasks (finished_at);

-- The results of tasks, in parts. Only the transaction of the work writes them, so a failed task leaves none.
create table tasks.results (
  id      bigint generated always as identity primary key,
  task_id uuid not null references tasks.tasks on delete cascade,
  part    json not null,
  bytes   bigint not null
);
-- The parts of a result, in order.
create index results_task_id_id_idx on tasks.results (task_id, id);

comment on table tasks.tasks is 'Asynchronous work: requests whose clients do not wait for the result.';
comment on table tasks.results is 'The results of tasks, in parts.';

-- graphile-worker would create this table together with its schema, which tasks_owner may not do.
create table if not exists graphile_worker.migrations (
  id       integer primary key,
  ts       timestamptz not null default now(),
  breaking boolean not null default false
);
