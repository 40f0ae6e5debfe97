create or replace trigger _500_changes_insert after insert on public.articles
  for each row execute function internal.announce_change('id', 'author_id');
create or replace trigger _500_changes_update after update on public.articles
  for each row when (old.* is distinct from new.*)
  execute function internal.announce_change('id', 'author_id');
create or replace trigger _500_changes_delete after delete on public.articles
  for each row execute function internal.announce_change('id', 'author_id');
