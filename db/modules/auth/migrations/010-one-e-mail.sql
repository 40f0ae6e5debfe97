-- auth_private.email_of says so too.
drop function if exists auth_private.has_email(auth.user_id);
