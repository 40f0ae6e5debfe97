grant usage on schema public to trackit_anon, trackit_user, trackit_support;
grant usage on schema app_private to trackit_user, trackit_support;
revoke execute on all functions in schema public, app_private from public;
grant execute on function app_private.current_user_id, app_private.my_organisations, app_private.has_role to trackit_user;
grant execute on function public.me, public.close_task, public.search_tasks, public.tasks_age_days,
  public.tasks_project_owner, public.organisation_stats to trackit_user;
grant all on all tables in schema public to trackit_support;
grant execute on all functions in schema public, app_private to trackit_support;

grant select on public.plans, public.plan_features to trackit_anon, trackit_user;

alter table public.users enable row level security;
grant select (id, email, full_name, avatar_url, settings, is_active, created_at, updated_at),
  update (full_name, avatar_url, settings) on public.users to trackit_user;
create policy "users see themselves and their colleagues" on public.users for select to trackit_user using (
  id = (select app_private.current_user_id())
  or id in (select user_id from public.members where organisation_id in (select app_private.my_organisations()))
);
create policy "users update themselves" on public.users for update to trackit_user
  using (id = (select app_private.current_user_id()));

alter table public.organisations enable row level security;
grant select, update (name, billing_address) on public.organisations to trackit_user;
create policy "members see their organisation" on public.organisations for select to trackit_user
  using (id in (select app_private.my_organisations()));
create policy "owners update their organisation" on public.organisations for update to trackit_user
  using (app_private.has_role(id, 'owner', 'admin'));

alter table public.members enable row level security;
grant select, insert, update (role), delete on public.members to trackit_user;
create policy "members see each other" on public.members for select to trackit_user
  using (organisation_id in (select app_private.my_organisations()));
create policy "owners manage members" on public.members to trackit_user
  using (app_private.has_role(organisation_id, 'owner', 'admin'))
  with check (app_private.has_role(organisation_id, 'owner', 'admin'));

alter table public.projects enable row level security;
grant select, insert (organisation_id, key, name, description, created_by), update (name, description, archived_at),
  delete on public.projects to trackit_user;
create policy "members use the projects of their organisation" on public.projects to trackit_user
  using (organisation_id in (select app_private.my_organisations()))
  with check (organisation_id in (select app_private.my_organisations()));
create policy "archived projects are hidden" on public.projects as restrictive for select to trackit_user
  using (not is_archived);

alter table public.tasks enable row level security;
grant select,
  insert (
    organisation_id, project_id, title, body, status, priority, assignee_id, reporter_id, parent_id, labels, custom,
    estimate, due
  ),
  update (title, body, status, priority, assignee_id, parent_id, labels, custom, estimate, due),
  delete on public.tasks to trackit_user;
create policy "members use the tasks of their organisation" on public.tasks to trackit_user
  using (organisation_id in (select app_private.my_organisations()))
  with check (organisation_id in (select app_private.my_organisations()));

alter table public.comments enable row level security;
grant select, insert, update (body, edited), delete on public.comments to trackit_user;
create policy "members use the comments of their organisation" on public.comments to trackit_user
  using (organisation_id in (select app_private.my_organisations()))
  with check (
    organisation_id in (select app_private.my_organisations()) and author_id = (select app_private.current_user_id())
  );

alter table public.attachments enable row level security;
grant select, insert, delete on public.attachments to trackit_user;
create policy "members use the attachments of their organisation" on public.attachments to trackit_user
  using (organisation_id in (select app_private.my_organisations()))
  with check (organisation_id in (select app_private.my_organisations()));

alter table public.invoices enable row level security;
grant select on public.invoices to trackit_user;
create policy "owners see invoices" on public.invoices for select to trackit_user
  using (app_private.has_role(organisation_id, 'owner', 'admin'));

alter table public.audit_log enable row level security;
grant select on public.audit_log to trackit_user;
create policy "owners see the audit log" on public.audit_log for select to trackit_user
  using (app_private.has_role(organisation_id, 'owner', 'admin'));

alter table public.task_watchers enable row level security;
grant select, insert, delete on public.task_watchers to trackit_user;
create policy "users watch tasks" on public.task_watchers to trackit_user
  using (user_id = (select app_private.current_user_id()))
  with check (user_id = (select app_private.current_user_id()));

alter table public.api_tokens enable row level security;

grant select, insert, update, delete on public.import_staging to trackit_user;
grant select on public.open_tasks, public.organisation_billing, public.project_stats to trackit_user;
