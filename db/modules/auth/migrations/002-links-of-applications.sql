-- A change of the e-mail has the data of its e-mail.
drop function if exists
  auth_api.change_email(auth.user_id, text, inet, uuid),
  auth_private.request_email(auth.user_id, text);
