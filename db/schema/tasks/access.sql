-- tasks_owner owns the tables, and no other role has a grant. Row-level security is on in case one is added by mistake.
alter table tasks.tasks owner to tasks_owner;
alter table tasks.results owner to tasks_owner;
alter table tasks.storage owner to tasks_owner;
alter table graphile_worker.migrations owner to tasks_owner;
alter table tasks.tasks enable row level security;
alter table tasks.results enable row level security;
alter table tasks.storage enable row level security;

-- The functions of tasks read the caller.
grant usage on schema auth to tasks_owner;
grant execute on function auth.claims(), auth.uid() to tasks_owner;
