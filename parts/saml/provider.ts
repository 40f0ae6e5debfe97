import { promisify } from "node:util";
import { SAML, type SamlConfig } from "@node-saml/node-saml";
import { decrypt } from "xml-encryption";
import { RemoteValue } from "../../identity/remote-value.ts";
import { hashOf } from "../../identity/secrets.ts";
import type { Database } from "../../rest-gateway/auth/functions.ts";
import { keepOnce } from "../../rest-gateway/auth/one-time-values.ts";
import { isSignInFailure, signInFailure } from "../federated/failure.ts";
import type { Flow } from "../federated/flow.ts";
import {
  type ConfirmedIdentity,
  identityOf,
  type Provider,
  type ProviderContext,
  textAt,
  urlOf,
} from "../federated/provider.ts";
import { type Assertion, CLOCK_SKEW, readAssertion } from "./assertion.ts";
import { parseMetadata, type SamlMetadata, writeMetadata } from "./metadata.ts";
import { checkLogoutResponse, type LogoutRequest, readLogoutRequest } from "./redirect.ts";
import { checkDecrypted, checkResponse, decodeResponse, type Expected, type ResponseShape } from "./response.ts";
import type { KeyPair, SamlSettings } from "./settings.ts";
import { XmlError } from "./xml.ts";

/** Milliseconds after which the metadata of a provider are read again. */
const MAX_AGE = 3_600_000;

const decryptXml = promisify(decrypt);

/**
 * A provider of SAML 2.0. node-saml verifies the signature, the times and the audience. It does not check recipient, issuer and
 * request; it accepts weak algorithms, and needs quadratic time for some XML. So response.ts checks a response before
 * node-saml reads it, and assertion.ts checks the signed assertion afterwards.
 */
export class SamlProvider implements Provider {
  readonly settings: SamlSettings;
  readonly sameSite = "None";
  readonly #context: ProviderContext;
  readonly #entityId: string;
  readonly #consumerUrl: string;
  readonly #logoutUrl: string;
  readonly #metadata: RemoteValue<SamlMetadata>;

  constructor(settings: SamlSettings, context: ProviderContext) {
    this.settings = settings;
    this.#context = context;
    this.#entityId = settings.entityId ?? urlOf(context, settings, "metadata");
    this.#consumerUrl = urlOf(context, settings, "acs");
    this.#logoutUrl = urlOf(context, settings, "logout");
    const { clock, log } = context;
    const onError = (err: unknown) =>
      log.error({ provider: settings.name, err }, "the metadata of an identity provider cannot be read");
    const read = (previous: SamlMetadata | null) => this.#readMetadata(previous);
    this.#metadata = new RemoteValue({ read, maxAge: MAX_AGE, clock, onError });
  }

  get source(): string {
    return JSON.stringify(this.settings.metadata);
  }

  async issuer(): Promise<string> {
    return (await this.metadata()).entityId;
  }

  /** The metadata of this service for the provider. */
  ownMetadata(): string {
    const { keys, nameIdFormat } = this.settings;
    const [entityId, consumerUrl, logoutUrl] = [this.#entityId, this.#consumerUrl, this.#logoutUrl];
    return writeMetadata({ entityId, consumerUrl, logoutUrl, keys, nameIdFormat });
  }

  async begin(flow: Flow): Promise<string> {
    const saml = new SAML(this.#options(await this.metadata(), flow));
    return saml.getAuthorizeUrlAsync(flow.state, undefined, {});
  }

  async finish(response: URLSearchParams, flow: Flow, database: Database): Promise<ConfirmedIdentity> {
    const xml = decodeResponse(response.get("SAMLResponse"));
    const metadata = await this.metadata();
    const assertion = await this.#read(xml, metadata, flow);
    await useOnce(database, `${metadata.entityId}\0${assertion.id}`, assertion.expiresAt);
    const { attributes, nameId, sessionIndex } = assertion;
    const chosen = textAt(attributes, this.settings.claims.subject);
    const subject = this.settings.claims.subject.length > 0 ? chosen : assertion.subject;
    if (subject === null) {
      const detail =
        "the NameID is transient, or the attribute in claims.subject is missing: set claims.subject to one that the provider sends";
      throw signInFailure("not verified", detail);
    }
    const signIn = JSON.stringify({ nameId, sessionIndex });
    return identityOf(this.settings, metadata.entityId, { subject, values: attributes, signIn });
  }

  async logout(signIn: string | null, flow: Flow): Promise<string | null> {
    const metadata = await this.metadata();
    if (metadata.logoutUrl === null || signIn === null) return null;
    const { nameId, sessionIndex } = JSON.parse(signIn) as Pick<Assertion, "nameId" | "sessionIndex">;
    const saml = new SAML(this.#options(metadata, flow));
    const profile = {
      issuer: metadata.entityId,
      nameID: nameId.value,
      nameIDFormat: nameId.format ?? "urn:oasis:names:tc:SAML:1.1:nameid-format:unspecified",
      ...(nameId.nameQualifier !== null && { nameQualifier: nameId.nameQualifier }),
      ...(nameId.spNameQualifier !== null && { spNameQualifier: nameId.spNameQualifier }),
      ...(sessionIndex !== null && { sessionIndex }),
    };
    return saml.getLogoutUrlAsync(profile, flow.state, {});
  }

  async finishLogout(query: string, { requestId }: Flow): Promise<void> {
    checkLogoutResponse(query, requestId, this.#sender(await this.metadata()));
  }

  /** Reads a request of the provider to end a sign-in. Each request is accepted once. */
  async readLogoutRequest(query: string, database: Database): Promise<LogoutRequest> {
    const metadata = await this.metadata();
    const request = readLogoutRequest(query, this.#sender(metadata));
    await useOnce(database, `${metadata.entityId}\0${request.id}`, request.expiresAt);
    return request;
  }

  /** The URL that sends the provider the response to its logout request. Null if the provider has none for responses. */
  async answerLogout({ id }: LogoutRequest, hasEnded: boolean, relayState: string, flow: Flow): Promise<string | null> {
    const metadata = await this.metadata();
    if (metadata.logoutResponseUrl === null) return null;
    const saml = new SAML({ ...this.#options(metadata, flow), logoutUrl: metadata.logoutResponseUrl });
    // The parameter of node-saml has the type of a profile; only the id of the request is read.
    return saml.getLogoutResponseUrlAsync({ ID: id } as never, relayState, {}, hasEnded);
  }

  /** The metadata of the provider. */
  async metadata(): Promise<SamlMetadata> {
    const current = await this.#metadata.current();
    if (this.#isValid(current)) return current;
    const newer = await this.#metadata.newer();
    if (this.#isValid(newer)) return newer;
    throw signInFailure("unavailable", "the metadata of the provider have expired (validUntil)");
  }

  #isValid({ validUntil }: SamlMetadata): boolean {
    return validUntil === null || validUntil > this.#context.clock();
  }

  async #readMetadata(previous: SamlMetadata | null): Promise<SamlMetadata> {
    const { metadata: source } = this.settings;
    try {
      const text = "xml" in source ? source.xml : await this.#context.outbound.text(source.url, "application/xml, */*");
      const metadata = parseMetadata(text);
      // Otherwise a provider could change the name in its metadata to that of another provider, and sign in that provider's users.
      const issuer = this.settings.issuer ?? previous?.entityId ?? metadata.entityId;
      if (metadata.entityId !== issuer)
        throw new XmlError(`have the entityID ${metadata.entityId} instead of ${issuer}`);
      return metadata;
    } catch (error) {
      const what = error instanceof XmlError ? "the metadata of the provider " : "";
      throw signInFailure("unavailable", `${what}${(error as Error).message}`, error);
    }
  }

  /** The assertion of a response. If no known certificate has signed it, the metadata are read again: there may be a new one. */
  async #read(xml: string, metadata: SamlMetadata, flow: Flow): Promise<Assertion> {
    try {
      return await this.#verify(xml, metadata, flow);
    } catch (error) {
      if (!(isSignInFailure(error) && error.cause instanceof SignatureError)) throw error;
      const newer = await this.#metadata.newer();
      if (newer.certificates.join() === metadata.certificates.join()) throw error;
      return this.#verify(xml, newer, flow);
    }
  }

  async #verify(xml: string, metadata: SamlMetadata, flow: Flow): Promise<Assertion> {
    const expected: Expected = {
      issuer: metadata.entityId,
      entityId: this.#entityId,
      consumerUrl: this.#consumerUrl,
      requestId: flow.requestId,
      now: this.#context.clock(),
    };
    const shape = checkResponse(xml, expected);
    const key = shape.isEncrypted ? await this.#keyOf(xml) : null;
    const isAssertionSigned = key === null ? shape.isAssertionSigned : key.isAssertionSigned;
    const saml = new SAML({
      ...this.#options(metadata, flow),
      ...(key !== null && { decryptionPvk: key.privateKey }),
      // Every signature that is there must be valid.
      wantAuthnResponseSigned: shape.isResponseSigned,
      wantAssertionsSigned: isAssertionSigned,
    });
    const { profile } = await saml
      .validatePostResponseAsync({ SAMLResponse: Buffer.from(xml).toString("base64") })
      .catch((cause: Error) => {
        throw signInFailure("not verified", cause.message, new SignatureError(cause.message, { cause }));
      });
    return readAssertion(profile!.getAssertionXml!(), expected);
  }

  /** The key that decrypts the assertion. Anyone can encrypt one, so its contents are checked before node-saml reads them. */
  async #keyOf(xml: string): Promise<Pick<KeyPair, "privateKey"> & Pick<ResponseShape, "isAssertionSigned">> {
    for (const { privateKey } of this.settings.keys) {
      const options = { key: privateKey, disallowDecryptionWithInsecureAlgorithm: true };
      const decrypted = await decryptXml(xml, options).catch(() => null);
      if (decrypted !== null) return { privateKey, isAssertionSigned: checkDecrypted(decrypted) };
    }
    throw signInFailure("not verified", "the assertion cannot be decrypted with the keys of the provider's entry");
  }

  #options({ entityId, signInUrl, logoutUrl, certificates }: SamlMetadata, { requestId }: Flow): SamlConfig {
    const [key] = this.settings.keys;
    return {
      entryPoint: signInUrl,
      logoutUrl: logoutUrl ?? signInUrl,
      callbackUrl: this.#consumerUrl,
      issuer: this.#entityId,
      audience: this.#entityId,
      idpIssuer: entityId,
      idpCert: [...certificates],
      ...(key && { privateKey: key.privateKey }),
      signatureAlgorithm: "sha256",
      digestAlgorithm: "sha256",
      identifierFormat: this.settings.nameIdFormat,
      disableRequestedAuthnContext: true,
      acceptedClockSkewMs: CLOCK_SKEW,
      generateUniqueId: () => requestId,
    };
  }

  #sender({ entityId: issuer, certificates }: SamlMetadata) {
    return { issuer, certificates, destination: this.#logoutUrl, now: this.#context.clock() };
  }
}

async function useOnce(database: Database, id: string, expiresAt: number): Promise<void> {
  if (await keepOnce(database, "assertion", hashOf(id), {}, expiresAt)) return;
  throw signInFailure("expired", "the assertion, or the request, was used before");
}

/** node-saml has rejected the response, possibly because the provider has a new certificate. */
class SignatureError extends Error {}
