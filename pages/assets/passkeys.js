// Passkeys on the pages of accounts. Fills in a field of a form with a passkey, and sends the form. The buttons are hidden where the browser has no passkeys, or not for
// the domain of the service.
const { hostname } = location;
const isSupported =
  typeof PublicKeyCredential === "function" && "parseRequestOptionsFromJSON" in PublicKeyCredential && isSecureContext;

const USES = {
  /** Asks for a passkey of the user. `challenge` is that of a sign-in whose password was right. */
  async get({ url }, { challenge }) {
    const body = JSON.stringify(challenge ? { challenge: challenge.value } : {});
    const response = await fetch(url, { method: "POST", headers: { "Content-Type": "application/json" }, body });
    const options = await response.json();
    if (!response.ok) throw new Error(options.error.message);
    return navigator.credentials.get({ publicKey: PublicKeyCredential.parseRequestOptionsFromJSON(options) });
  },
  create: ({ options }) =>
    navigator.credentials.create({
      publicKey: PublicKeyCredential.parseCreationOptionsFromJSON(JSON.parse(options)),
    }),
};

/** What went wrong, by the name of the error of the browser. */
const FAULTS = {
  InvalidStateError: "This device has a passkey of your account already.",
  NotAllowedError: "No passkey was used. Try again.",
};

for (const place of document.querySelectorAll("[data-passkey]")) {
  const { passkey: use, domain } = place.dataset;
  if (!isSupported || (hostname !== domain && !hostname.endsWith(`.${domain}`))) continue;
  place.hidden = false;
  for (const note of document.querySelectorAll("[data-without-passkeys]")) note.hidden = true;
  const button = place.querySelector("button");
  const fault = place.querySelector(".fault");
  fault.setAttribute("role", "alert");
  button.addEventListener("click", async () => {
    const { form } = button;
    const { code } = form.elements;
    // The passkey replaces the code. What else is required comes first.
    if (code) code.required = false;
    if (!form.reportValidity()) return;
    button.disabled = true;
    fault.textContent = "";
    try {
      const credential = await USES[use](place.dataset, form.elements);
      place.querySelector("input").value = JSON.stringify(credential);
      form.requestSubmit();
    } catch (error) {
      fault.textContent = FAULTS[error.name] ?? `This did not work: ${error.message}`;
    } finally {
      button.disabled = false;
    }
  });
}
