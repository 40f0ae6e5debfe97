-- The tables whose changes the service sends to subscribers. The old row is logged with each change, so that an update
-- that changes nothing is recognized.
alter table public.articles replica identity full;
alter table public.comments replica identity full;

do $$
begin
  if not exists (select from pg_publication where pubname = 'content_changes') then
    create publication content_changes for table public.articles, public.comments
      with (publish = 'insert, update, delete');
  end if;
  -- Otherwise a stored generated column in one of the tables would make its updates and deletes fail.
  if current_setting('server_version_num')::integer >= 180000 then
    alter publication content_changes set (publish_generated_columns = 'stored');
  end if;
end $$;
