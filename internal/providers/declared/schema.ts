import { type Static, type TObject, type TProperties, type TSchema, Type as t } from '@sinclair/typebox'

// One schema for manifests in a folder, the custom resource and the documentation. It has no unions of objects and no schema-level
// defaults, which the structural schema of a custom resource does not allow. `check.ts` contains the rules between fields.

/** Refuses unknown fields, so that a misspelt field is not ignored. */
function strict<P extends TProperties>(properties: P, description: string): TObject<P> {
  return t.Object(properties, { additionalProperties: false, description })
}

function oneOf<const V extends readonly string[]>(values: V, description: string) {
  const pattern = `^(${values.join('|')})$`
  return t.Unsafe<V[number]>(t.String({ enum: [...values], pattern, description }))
}

function list<S extends TSchema>(item: S, bounds: readonly [min: number, max: number], description: string) {
  return t.Array(item, { minItems: bounds[0], maxItems: bounds[1], description })
}

const text = (charsMax: number, description: string) =>
  t.String({ minLength: 1, maxLength: charsMax, description })

/** Maximum length of a path, a template, a header's name and other short texts. */
const shortTextCharsMax = 255

const headerKey = t.String({
  pattern: '^[A-Za-z][A-Za-z0-9-]{0,63}$',
  maxLength: 64,
  description: 'Key of a header in `headers`.',
})
const headerName = t.String({
  pattern: '^[A-Za-z0-9-]{1,100}$',
  maxLength: 100,
  description: 'Name of a header, in any case.',
})
const queryName = text(100, 'Name of a query parameter.')
const jsonPath = t.String({
  pattern: '^[^.]+(\\.[^.]+){0,15}$',
  maxLength: shortTextCharsMax,
  description:
    'Path in the JSON body: names joined by dots, at most 16; a number is the position in an array.',
})
const template = (variables: string) =>
  t.String({ maxLength: 1024, description: `Text with variables in braces: ${variables}.` })
const callVariables =
  '`{body}`, `{timestamp}`, `{id}`, `{url}`, `{path}`, `{method}`, `{header:<key>}`, `{headers:<key>}`, `{query:<name>}`, `{form:sorted}`, `{json:<path>}`, `{sha256:body}`; `{{` is a brace'
const callTemplate = template(callVariables)

const claimTemplate = template(
  `${callVariables}. With \`jwksUrl\`, also \`{secret}\`, and \`{secret:<member>}\` of a secret that is a JSON object`,
)
const hashTemplate = template(
  `${callVariables}, and \`{receivedAt}\`, the time of receipt in milliseconds, for calls without an id that repeat`,
)

const scalar = t.Union([t.String({ maxLength: shortTextCharsMax }), t.Number(), t.Boolean()])

const condition = strict(
  {
    path: jsonPath,
    values: t.Optional(list(scalar, [1, 50], 'Accepted values.')),
    isPresent: t.Optional(t.Boolean({ description: 'Whether the member must be present. null is absent.' })),
  },
  'Condition on a member of the JSON body: exactly one of `values` and `isPresent`.',
)

/** `token` and `basic` compare a shared secret. `aws-sns` verifies a message with the certificate at the address in the message. */
export const algorithms = [
  'hmac-sha1',
  'hmac-sha256',
  'hmac-sha384',
  'hmac-sha512',
  'ed25519',
  'ecdsa-p256-sha256',
  'ecdsa-p384-sha384',
  'rsa-pkcs1-sha256',
  'rsa-pkcs1-sha512',
  'rsa-pss-sha256',
  'token',
  'basic',
  'jwt',
  'aws-sns',
] as const
export type Algorithm = (typeof algorithms)[number]

/** Algorithms of JSON Web Tokens. Excludes `none`, with which anyone could make a token. */
export const jwtAlgorithms = [
  'HS256',
  'HS384',
  'HS512',
  'RS256',
  'RS384',
  'RS512',
  'PS256',
  'PS384',
  'PS512',
  'ES256',
  'ES384',
  'EdDSA',
] as const

export const encodings = ['hex', 'base64', 'base64url'] as const
export type Encoding = (typeof encodings)[number]

export const timeUnits = ['s', 'ms', 'iso'] as const
/** Unix seconds, Unix milliseconds, or RFC 3339. */
export type TimeUnit = (typeof timeUnits)[number]

const signatureValue = strict(
  {
    header: t.Optional(headerKey),
    query: t.Optional(queryName),
    json: t.Optional(jsonPath),
    moreHeaders: t.Optional(
      list(headerKey, [1, 4], 'Further headers with a signature each; one match is enough.'),
    ),
    olderHeaders: t.Optional(
      list(headerName, [1, 4], 'Headers of an older scheme, which is refused. They are as secret.'),
    ),
    prefix: t.Optional(text(32, 'Text before the signature. A value with another prefix is another scheme.')),
    pairs: t.Optional(
      strict(
        {
          separator: text(2, 'Text between pairs. White space around pairs is ignored unless it is a space.'),
          assign: text(1, 'Character between name and value.'),
          name: text(32, 'Name of the pairs with a signature: at most 20, of which one must match.'),
          emptyValues: t.Optional(
            t.Boolean({
              description: 'Skips pairs without a name or a value. Default: the header is malformed.',
            }),
          ),
        },
        'The value is a list of pairs. Pairs with other names are skipped.',
      ),
    ),
    list: t.Optional(
      strict(
        { separator: text(2, 'Text between items.') },
        'The value is a list: the time of the signature first, then signatures, of which one must match.',
      ),
    ),
  },
  'Place and form of the signature: exactly one of `header`, `query` and `json`, and at most one of `prefix`, `pairs` and `list`.',
)

const keyFormats = ['pem', 'der', 'raw', 'jwk'] as const

const key = strict(
  {
    prefix: t.Optional(
      text(32, 'Prefix that is removed from the secret, if it has it, before it is decoded.'),
    ),
    decode: t.Optional(oneOf(encodings, 'Encoding of the key in the secret. Default: the text itself.')),
    bytesMin: t.Optional(
      t.Integer({
        minimum: 1,
        maximum: 128,
        description: 'Minimum bytes of a decoded key. A shorter one is no key.',
      }),
    ),
    orText: t.Optional(t.Boolean({ description: 'Uses a secret without the prefix as text, too.' })),
    format: t.Optional(
      oneOf(
        keyFormats,
        'Format of a public key. `der` is SubjectPublicKeyInfo; `raw` is 32 bytes of Ed25519, or an uncompressed point.',
      ),
    ),
    jwksUrl: t.Optional(
      t.String({
        pattern: '^https://([a-z0-9-]{1,63}\\.){1,8}[a-z][a-z0-9-]{0,62}/[A-Za-z0-9._~@/-]{0,180}$',
        maxLength: 255,
        description:
          'Address of the vendor’s JSON Web Key Set, which intake fetches: https, a host name in lower case without a port, no query. The tenant’s secrets are values that claims must have, see `{secret}`.',
      }),
    ),
  },
  'Derivation of keys from the tenant’s secrets, which are public keys for asymmetric algorithms. Default: the text of each secret.',
)

const scheme = strict(
  {
    algorithm: oneOf(algorithms, 'Algorithm of the signature. RSA keys have at least 2048 bits.'),
    signature: signatureValue,
    encoding: t.Optional(oneOf(encodings, 'Encoding of signatures.')),
    ecdsaForm: t.Optional(oneOf(['der', 'p1363'], 'Form of an ECDSA signature. Default: der.')),
    signs: t.Optional(callTemplate),
    key: t.Optional(key),
    timestamp: t.Optional(
      strict(
        {
          header: t.Optional(headerKey),
          pair: t.Optional(text(32, 'Name of the pair with the time; it must occur once.')),
          listFirst: t.Optional(t.Boolean({ description: 'The time is the first item of `list`.' })),
          json: t.Optional(jsonPath),
          unit: oneOf(timeUnits, 'Form of the time: Unix seconds, Unix milliseconds, RFC 3339.'),
        },
        'Place of the signed time: exactly one of `header`, `pair`, `listFirst` and `json`. The claim `iat` of a JWT needs none.',
      ),
    ),
    toleranceSeconds: t.Optional(
      t.Integer({
        minimum: 1,
        maximum: 345_600,
        description:
          'Maximum difference of the signed time in both directions, at most 4 days. Default: LATCHKEY_SIGNATURE_MAX_AGE_SECONDS.',
      }),
    ),
    when: t.Optional(
      strict(
        { header: t.Optional(headerKey), query: t.Optional(queryName) },
        'The scheme applies only to calls with this header or query parameter.',
      ),
    ),
    requires: t.Optional(
      list(
        strict(
          {
            header: t.Optional(headerKey),
            query: t.Optional(queryName),
            json: t.Optional(jsonPath),
            claim: t.Optional(text(64, 'Name of a claim of the JWT.')),
            equals: t.Optional(claimTemplate),
            anyOf: t.Optional(list(claimTemplate, [2, 4], 'Texts, of which the value must equal one.')),
          },
          'Value that must equal a text: exactly one of `header`, `query`, `json` and `claim`, and exactly one of `equals` and `anyOf`.',
        ),
        [1, 8],
        'Values that are checked after the signature; all must hold. With `jwksUrl`, one claim must equal a text with `{secret}`, since the vendor’s keys sign for all its customers.',
      ),
    ),
    jwtAlgorithms: t.Optional(
      list(oneOf(jwtAlgorithms, 'Accepted algorithm.'), [1, 6], 'Algorithms of a JWT.'),
    ),
  },
  'A way to sign calls.',
)

const valuePlace = {
  header: t.Optional(
    list(headerKey, [1, 3], 'Headers that are read as one: if several are present, they must be equal.'),
  ),
  json: t.Optional(jsonPath),
}

const event = strict(
  {
    id: list(
      strict(
        {
          ...valuePlace,
          integer: t.Optional(t.Boolean({ description: 'Also accepts an integer up to 2^53.' })),
          hash: t.Optional(hashTemplate),
        },
        'Place of the id: exactly one of `header`, `json` and `hash`, the SHA-256 of a text.',
      ),
      [1, 4],
      'Places of the event id; the first that is present counts. An unsigned header must not contradict a later JSON path.',
    ),
    type: strict(
      {
        from: list(
          strict(
            {
              header: t.Optional(headerKey),
              json: t.Optional(jsonPath),
              text: t.Optional(text(100, 'Type of all events.')),
            },
            'Exactly one of `header`, `json` and `text`.',
          ),
          [1, 8],
          'Places of the raw type; the first that is present counts.',
        ),
        action: t.Optional(
          strict(
            {
              header: t.Optional(headerKey),
              json: t.Optional(jsonPath),
              separator: text(2, 'Text between type and action.'),
              joins: oneOf(
                ['raw', 'unlisted'],
                'Joins the action to the raw type, or only to the derived type of an unlisted one.',
              ),
            },
            'Second half of the type: exactly one of `header` and `json`.',
          ),
        ),
        keepsDotted: t.Optional(
          t.Boolean({
            description:
              'Keeps an unlisted type that is dotted lowercase. Default: it becomes `<name>.<raw type>`.',
          }),
        ),
      },
      'The type of an event.',
    ),
    occurredAt: t.Optional(
      list(
        strict(
          {
            header: t.Optional(headerKey),
            json: t.Optional(jsonPath),
            unit: oneOf(timeUnits, 'Form of the time.'),
          },
          'Exactly one of `header` and `json`.',
        ),
        [1, 4],
        'Places of the time of the event; the first that is valid counts. Default: the time of receipt.',
      ),
    ),
  },
  'What is read from a verified call.',
)

const typePattern = '^[a-z0-9_]+(\\.[a-z0-9_]+)+$'

const eventCase = strict(
  {
    raw: text(shortTextCharsMax, 'Raw type; `unknown` if the call has none.'),
    type: t.String({ pattern: typePattern, maxLength: 100, description: 'Normalized type.' }),
    when: t.Optional(list(condition, [0, 8], 'Conditions, which must all hold.')),
  },
  'Normalized type of a raw type. The cases of a raw type are tried in their order.',
)

const handshake = strict(
  {
    method: oneOf(['GET', 'HEAD', 'POST'], 'Method of the call.'),
    when: t.Optional(list(condition, [1, 4], 'Conditions on the JSON body, which must all hold.')),
    isSigned: t.Boolean({ description: 'Whether the call must be signed like an event.' }),
    challenge: t.Optional(
      strict(
        { header: t.Optional(headerKey), query: t.Optional(queryName), json: t.Optional(jsonPath) },
        'Place of the challenge: exactly one of `header`, `query` and `json`.',
      ),
    ),
    hmac: t.Optional(
      strict(
        { encoding: oneOf(encodings, 'Encoding of the HMAC.') },
        'Makes `{hmac}` the HMAC of the challenge under the first secret, by the first HMAC scheme.',
      ),
    ),
    reply: strict(
      {
        status: t.Optional(
          t.Unsafe<200 | 204>(
            t.Integer({ enum: [200, 204], minimum: 200, maximum: 204, description: 'Default: 200.' }),
          ),
        ),
        text: t.Optional(template('`{challenge}`, `{hmac}`')),
        headers: t.Optional(
          t.Record(t.String({ pattern: '^[A-Za-z0-9-]{1,100}$' }), template('`{challenge}`, `{hmac}`'), {
            additionalProperties: false,
            minProperties: 1,
            maxProperties: 2,
            description:
              'Headers of the answer, whose names begin with `X-` or `WebHook-` and have no meaning for browsers and proxies.',
          }),
        ),
        json: t.Optional(
          t.Record(t.String({ pattern: '^[A-Za-z0-9_.-]{1,64}$' }), scalar, {
            additionalProperties: false,
            minProperties: 1,
            maxProperties: 8,
            description: 'Members of a JSON object; texts are templates with `{challenge}` and `{hmac}`.',
          }),
        ),
      },
      'Answer: `text`, `json`, or neither for an empty one, as 204 demands.',
    ),
  },
  'Call by which the vendor checks the URL; it makes no event.',
)

const vector = strict(
  {
    name: text(100, 'Name of the vector.'),
    source: t.Optional(text(300, 'Page or file that the vector is from, and the date it was read.')),
    secrets: list(text(8192, 'Secret, or public key.'), [1, 5], 'Secrets of the tenant.'),
    at: t.String({ maxLength: 40, description: 'Time of the call, RFC 3339.' }),
    method: t.Optional(oneOf(['GET', 'HEAD', 'POST'], 'Default: POST.')),
    url: t.Optional(t.String({ maxLength: 2048, description: 'URL as the vendor calls it.' })),
    headers: t.Record(t.String({ pattern: '^[A-Za-z0-9-]{1,100}$' }), t.String({ maxLength: 8192 }), {
      additionalProperties: false,
      maxProperties: 30,
      description: 'Headers of the call.',
    }),
    body: t.Optional(t.String({ maxLength: 65_536, description: 'Body as text.' })),
    bodyBase64: t.Optional(
      t.String({ maxLength: 87_384, description: 'Body in base64, if it is not text.' }),
    ),
    fetched: t.Optional(
      list(
        strict(
          {
            url: t.String({ pattern: '^https://', maxLength: 512, description: 'Address.' }),
            text: text(65_536, 'Key set as JSON, or certificate as PEM.'),
          },
          'What the vendor serves at an address.',
        ),
        [1, 2],
        'Key sets and certificates, in place of a fetch. The keys are only for the vector.',
      ),
    ),
    expect: strict(
      {
        id: t.Optional(text(255, 'Event id.')),
        rawType: t.Optional(text(255, 'Raw type.')),
        type: t.Optional(text(255, 'Normalized type.')),
        occurredAt: t.Optional(text(40, 'Time of the event, RFC 3339.')),
        refused: t.Optional(text(40, 'Cause of refusal, in place of an event.')),
        answer: t.Optional(
          t.String({
            maxLength: 2048,
            description: 'Body of the answer to a handshake, in place of an event.',
          }),
        ),
        confirms: t.Optional(
          text(2048, 'Address that is called to confirm a subscription, in place of an event.'),
        ),
      },
      'Result: an event (with `type`), `refused`, `answer` or `confirms`.',
    ),
  },
  'A recorded call and its result.',
)

/** Schema of a declaration. Every part is bounded. */
export const DeclarationSchema = strict(
  {
    name: t.String({
      pattern: '^[a-z][a-z0-9]{1,39}$',
      maxLength: 40,
      description: 'Name in paths, events and metrics, and first part of derived types.',
    }),
    aliases: t.Optional(
      list(
        t.String({ pattern: '^[a-z][a-z0-9_-]{1,39}$', maxLength: 40 }),
        [1, 5],
        'Further names in paths.',
      ),
    ),
    unverified: t.Optional(t.Boolean({ description: 'No vector is from the vendor: a tenant must opt in.' })),
    title: t.Optional(text(60, 'Name of the vendor as it writes itself.')),
    sources: t.Optional(
      list(
        strict(
          {
            url: t.String({ pattern: '^https://', maxLength: 300, description: 'Address of the page.' }),
            readAt: t.Optional(
              t.String({
                pattern: '^[0-9]{4}-[0-9]{2}-[0-9]{2}$',
                maxLength: 10,
                description:
                  'Date it was read. Absent: the page describes the scheme, but the declaration follows other sources.',
              }),
            ),
          },
          'Page of the vendor.',
        ),
        [1, 10],
        'Pages from which the declaration was written.',
      ),
    ),
    notes: t.Optional(
      list(text(500, 'Sentence.'), [1, 8], 'What an operator must know or do at the vendor.'),
    ),
    body: strict(
      {
        bytesMax: t.Integer({ minimum: 1, maximum: 26_214_400, description: 'Maximum bytes of a body.' }),
        json: t.Optional(
          strict(
            {
              arrayAs: t.Optional(
                text(
                  64,
                  'Name of the member of the payload that holds a body that is an array. Default: arrays are refused.',
                ),
              ),
            },
            'JSON in UTF-8, whatever the Content-Type unless `form` applies.',
          ),
        ),
        form: t.Optional(
          strict(
            {
              jsonField: t.Optional(
                text(64, 'Field with the event as JSON. Default: the payload is an object of all fields.'),
              ),
            },
            'Form bodies, by their Content-Type.',
          ),
        ),
      },
      'Form of bodies: `json`, `form` or both.',
    ),
    headers: t.Optional(
      t.Record(
        t.String({ pattern: '^[A-Za-z][A-Za-z0-9-]{0,63}$' }),
        strict(
          {
            names: list(
              headerName,
              [1, 4],
              'Names of the header, which must be equal if several are present.',
            ),
            description: t.Optional(text(500, 'Description in the documentation.')),
          },
          'A header that the declaration reads.',
        ),
        { additionalProperties: false, maxProperties: 20, description: 'Headers by key.' },
      ),
    ),
    signature: strict(
      {
        schemes: list(
          scheme,
          [1, 4],
          'Schemes; the signature that a call has decides. Two different ones are a conflict.',
        ),
        bodyUnsigned: t.Optional(
          t.Boolean({
            description:
              'Must be true if a scheme does not cover the whole body: a party that captures a call can send another body.',
          }),
        ),
      },
      'Signature of calls.',
    ),
    answers: t.Optional(
      strict(
        {
          refusedStatus: t.Optional(
            t.Unsafe<401 | 403>(
              t.Integer({
                enum: [401, 403],
                minimum: 401,
                maximum: 403,
                description: 'Status for a call whose signature is refused. Default: 400.',
              }),
            ),
          ),
          isEmpty: t.Optional(
            t.Boolean({ description: 'Whether the vendor demands responses without a body. Default: JSON.' }),
          ),
        },
        'Responses that the vendor demands to accepted calls and to calls whose signature is refused.',
      ),
    ),
    account: t.Optional(
      strict(
        {
          header: t.Optional(headerKey),
          json: t.Optional(jsonPath),
          setting: oneOf(['storefront.shopDomain'], 'Setting of the tenant.'),
          ignoreCase: t.Optional(t.Boolean({ description: 'Compares in lower case.' })),
        },
        'Value that must equal a setting of the tenant, where it is set: exactly one of `header` and `json`.',
      ),
    ),
    event,
    types: t.Optional(list(eventCase, [0, 2000], 'Normalized types. Others become `<name>.<raw type>`.')),
    handshakes: t.Optional(list(handshake, [1, 4], 'Handshakes, in the order in which they are tried.')),
    vectors: t.Optional(
      list(
        vector,
        [1, 20],
        'Recorded calls. They and calls derived from them are run when the declaration is applied.',
      ),
    ),
  },
  'Declaration of a provider.',
)

type Deep<T> = T extends readonly (infer E)[]
  ? readonly Deep<E>[]
  : T extends object
    ? { readonly [K in keyof T]: Deep<T[K]> }
    : T

/** Declaration of a provider that satisfies the schema. */
export type Declaration = Deep<Static<typeof DeclarationSchema>>
export type Scheme = Declaration['signature']['schemes'][number]
export type Handshake = NonNullable<Declaration['handshakes']>[number]
export type DeclaredCondition = NonNullable<Handshake['when']>[number]
/** Test vector: a recorded call with its expected result. */
export type Vector = NonNullable<Declaration['vectors']>[number]
