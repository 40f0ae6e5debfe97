import { CombinedGraphQLErrors } from "@apollo/client";
import { useState } from "react";

/** The errors of the fields: of a REST endpoint, of a GraphQL mutation, or of the result of one. */
function fieldErrors(error) {
  const fields = error.fields ?? (CombinedGraphQLErrors.is(error) ? error.errors[0].extensions?.fields : null);
  return fields?.length ? fields : [{ message: error.message }];
}

/**
 * A form that sends its values with `send`. Each error is shown beside its field, the others at the end. `fields`: by name the label
 * and the properties of its input.
 */
export function Form({ label, action, fields, send }) {
  const [errors, setErrors] = useState([]);
  async function submit(event) {
    event.preventDefault();
    const form = event.currentTarget;
    try {
      setErrors([]);
      await send(Object.fromEntries(new FormData(form)));
      form.reset();
    } catch (error) {
      setErrors(fieldErrors(error));
    }
  }
  const ofForm = errors.filter(({ field }) => !(field in fields));
  return (
    <form aria-label={label} onSubmit={submit}>
      {Object.entries(fields).map(([name, { label: text, as: Input = "input", ...properties }]) => {
        const faults = errors.filter(({ field }) => field === name);
        const id = `${label} ${name}`;
        return (
          <label key={name} htmlFor={id}>
            {text} <Input id={id} name={name} aria-invalid={faults.length > 0} {...properties} />
            {faults.map(({ message }) => (
              <span className="error" key={message}>
                {message}
              </span>
            ))}
          </label>
        );
      })}
      <button type="submit">{action}</button>
      <p role="alert">{ofForm.map(({ message }) => message).join(" ")}</p>
    </form>
  );
}
