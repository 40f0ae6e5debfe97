-- Asynchronous work: tasks that a client does not wait for.
create schema tasks;
alter schema tasks owner to tasks_owner;
comment on schema tasks is 'Asynchronous work: functions for callers and for workers; not served.';

-- The queue of tasks. graphile-worker creates its objects as tasks_owner (db/cluster/queue.ts).
create schema graphile_worker;
alter schema graphile_worker owner to tasks_owner;

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
  estimate     integer not null, -- seconds
  run          integer not null default 0, -- the number of the latest attempt, which alone may end the task
  attempts     integer not null default 0, -- without those that ended because the service stopped
  error        json,
  created_at   timestamptz not null default now(),
  started_at   timestamptz,
  finished_at  timestamptz,
  address      text, -- a keyed hash of the IP address of an anonymous caller; null for other callers
  round        integer not null default 1, -- each client of an owner has one task per round
  has_turn     boolean not null default false, -- has a job, or has ended and is not settled yet
  bytes        bigint not null default 0, -- counted in tasks.storage: when it is created, and when it has ended
  -- Bytes that the latest attempt may store: "result" in its result, "client" and "all" with other tasks.
  limits       json,

  constraint tasks_status_known check (status in ('pending', 'running', 'succeeded', 'failed', 'cancelled')),
  constraint tasks_finished_at_known check ((finished_at is null) = (status in ('pending', 'running')))
);
-- The tasks of a caller, newest first.
create index tasks_owner_created_at_id_idx on tasks.tasks (owner, created_at desc, id desc);
-- The number of unfinished tasks of a client.
create index tasks_client_unfinished_idx on tasks.tasks ((coalesce(address, owner))) where finished_at is null;
-- The number of turns that an owner has.
create index tasks_owner_turns_idx on tasks.tasks (owner) where has_turn;
-- The task of an owner that is next.
create index tasks_owner_waiting_idx on tasks.tasks (owner, round, created_at)
  where finished_at is null and not has_turn;
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

-- The sums of tasks.bytes, so that a limit is checked without reading all tasks.
create table tasks.storage (
  client text primary key, -- '(all)' for all callers, '(anonymous)' for all anonymous callers
  bytes  bigint not null
);

comment on table tasks.tasks is 'Asynchronous work: requests whose clients do not wait for the result.';
comment on table tasks.results is 'The results of tasks, in parts.';
comment on table tasks.storage is 'The stored bytes of each client with tasks.';

-- graphile-worker would create this table together with its schema, which tasks_owner may not do.
create table graphile_worker.migrations (
  id       integer primary key,
  ts       timestamptz not null default now(),
  breaking boolean not null default false
);

-- tasks_owner owns the tables, and no other role has a grant. Row-level security is on in case one is added by mistake.
alter table tasks.tasks owner to tasks_owner;
alter table tasks.results owner to tasks_owner;
alter table tasks.storage owner to tasks_owner;
alter table graphile_worker.migrations owner to tasks_owner;
alter table tasks.tasks enable row level security;
alter table tasks.results enable row level security;
alter table tasks.storage enable row level security;
