-- The tables belong to tasks_owner, and nobody is granted anything; row-level security says so too, should a grant ever slip in.
alter table tasks.tasks owner to tasks_owner;
alter table tasks.results owner to tasks_owner;
alter table graphile_worker.migrations owner to tasks_owner;
alter table tasks.tasks enable row level security;
alter table tasks.results enable row level security;

-- The functions ask who calls.
grant usage on schema auth to tasks_owner;
grant execute on function auth.claims(), auth.uid() to tasks_owner;
