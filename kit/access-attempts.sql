-- What a caller may do, by doing it. The owner calls these functions in a transaction that is rolled back.
-- Rows read, or the SQLSTATE of the error. The preparation is a statement of the owner, such as a grant.
create function pg_temp.read_as(role text, claims text, preparation text, query text, out "values" text[], out code text)
language plpgsql as $$
begin
  begin
    execute preparation;
    perform set_config('request.jwt.claims', claims, true), set_config('role', role, true);
    execute format('select coalesce(array_agg(r.value::text), %L) from (%s) as r (value)', '{}', query) into "values";
    raise sqlstate 'RB000';
  exception
    when sqlstate 'RB000' then null;
    when others then code := sqlstate;
  end;
end $$;

-- For each statement `=3`, the number of rows, or the SQLSTATE of the error.
create function pg_temp.attempt_as(role text, claims text, preparation text, statements text[]) returns text[]
language plpgsql as $$
declare
  outcomes text[] := '{}';
  affected bigint;
begin
  begin
    execute preparation;
    perform set_config('request.jwt.claims', claims, true), set_config('role', role, true);
    for i in 1 .. cardinality(statements) loop
      begin
        execute statements[i];
        get diagnostics affected = row_count;
        raise sqlstate 'RB000';
      exception
        when sqlstate 'RB000' then outcomes[i] := '=' || affected;
        when others then outcomes[i] := sqlstate;
      end;
    end loop;
    raise sqlstate 'RB000';
  exception when sqlstate 'RB000' then null;
  end;
  return outcomes;
end $$;
