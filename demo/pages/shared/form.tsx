import { type FormEvent, type InputHTMLAttributes, useId, useRef, useState } from "react";
import { type Fault, faultsOf } from "../live/faults.ts";
import { messageOf } from "./model.ts";

type Field = InputHTMLAttributes<HTMLInputElement> & { readonly label: string; readonly isLong?: boolean };

export type FormProps = {
  readonly label: string;
  /** The texts of the buttons; the first is that of Enter. */
  readonly actions: readonly string[];
  readonly fields: Readonly<Record<string, Field>>;
  /** Rejects with Refused, or with the error of a GraphQL client. */
  send(values: Record<string, string>, action: string): Promise<unknown>;
};

/** A form that sends its values. Each error is shown beside its field, the others at the end. The first invalid field gets the focus. */
export function Form({ label, actions, fields, send }: FormProps) {
  const [faults, setFaults] = useState<readonly Fault[]>([]);
  const [isSending, setSending] = useState(false);
  const form = useRef<HTMLFormElement>(null);
  const id = useId();

  async function submit(event: FormEvent<HTMLFormElement>) {
    event.preventDefault();
    const { submitter } = event.nativeEvent as SubmitEvent;
    const values = Object.fromEntries(new FormData(form.current!)) as Record<string, string>;
    setSending(true);
    try {
      await send(values, submitter?.textContent ?? actions[0]!);
      setFaults([]);
      form.current?.reset();
    } catch (error) {
      const found = faultsOf(error);
      setFaults(found.length > 0 ? found : [{ message: messageOf(error) }]);
      const invalid = Object.keys(fields).find((name) => found.some(({ field }) => field === name));
      if (invalid) (form.current!.elements.namedItem(invalid) as HTMLElement).focus();
    } finally {
      setSending(false);
    }
  }

  return (
    <form ref={form} aria-label={label} onSubmit={submit} noValidate>
      {Object.entries(fields).map(([name, { label: text, isLong, ...properties }]) => {
        const Input: any = isLong ? "textarea" : "input";
        const messages = faults.filter(({ field }) => field === name).map(({ message }) => message);
        const isInvalid = messages.length > 0;
        const inputId = `${id}${name}`;
        const errorId = `${inputId}-error`;
        return (
          <label key={name} htmlFor={inputId}>
            {text}
            <Input
              id={inputId}
              name={name}
              aria-invalid={isInvalid}
              aria-describedby={isInvalid ? errorId : undefined}
              {...properties}
            />
            <span id={errorId} className="error" hidden={!isInvalid}>
              {messages.join("; ")}
            </span>
          </label>
        );
      })}
      <div className="row">
        {actions.map((action, i) => (
          <button key={action} type="submit" disabled={isSending} className={i === 0 ? "primary" : ""}>
            {action}
          </button>
        ))}
      </div>
      <p role="alert">
        {faults
          .filter(({ field }) => field === undefined || !(field in fields))
          .map(({ message }) => message)
          .join(" ")}
      </p>
    </form>
  );
}
