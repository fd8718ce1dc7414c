/** Says whether the value under a name is hidden. `value` is its text where it is a single value. Never throws. */
export type HidesValue = (name: string, value?: string) => boolean

/** Names whose values are hidden: alone, or as the end of a longer name, whatever stands before. */
const endings = [
  ...['password', 'passwd', 'passphrase', 'passcode', 'pwdhash', 'secret', 'secrets', 'passwords'],
  ...[
    'token',
    'tokens',
    'authorization',
    'authorizationcode',
    'credential',
    'credentials',
    'cookie',
    'cookies',
  ],
  ...[
    'apikey',
    'apikeys',
    'secretkey',
    'privatekey',
    'accesskey',
    'signingkey',
    'encryptionkey',
    'sharedkey',
  ],
  ...[
    'masterkey',
    'sessionkey',
    'authkey',
    'hmackey',
    'subscriptionkey',
    'accountkey',
    'functionskey',
    'keyring',
  ],
  ...[
    'cardnumber',
    'creditcard',
    'ccnumber',
    'ccnum',
    'cardno',
    'primaryaccountnumber',
    'bankaccountnumber',
    'iban',
  ],
  ...[
    'securitycode',
    'cardverificationvalue',
    'cvc',
    'cvv',
    'cvc2',
    'cvv2',
    'pinblock',
    'userpin',
    'cardpin',
    'trackdata',
    'magstripe',
  ],
  ...['socialsecuritynumber', 'passportnumber', 'driverslicense', 'driverslicensenumber', 'nationalid'],
  ...[
    'connectionstring',
    'seedphrase',
    'mnemonic',
    'recoverycode',
    'recoverycodes',
    'backupcodes',
    'onetimecode',
  ],
  ...['verificationcode', 'mfacode', 'otpcode', 'clientassertion', 'samlresponse', 'samlassertion', 'sessid'],
]

/** Names too short for that: alone, or as the last word of a longer name. */
const words = [
  'pan',
  'pin',
  'ssn',
  'otp',
  'totp',
  'jwt',
  'pwd',
  'pass',
  'csc',
  'csrf',
  'xsrf',
  'bearer',
  'salt',
]

/** Names that say nothing as a part of others. */
const wholes = ['auth', 'xauth', 'basicauth', 'proxyauth', 'dsn', 'track1', 'track2', 'userpass', 'sid2fa']

/** What may follow such a name and leaves it one: `passwordHash`, `new_password_2`, `secret.value`. */
const qualifier =
  /(?:value|hash|hashed|digest|header|text|string|plain|plaintext|clear|raw|base64|b64|encoded|encrypted|confirmation|confirm|repeat|again|old|new|current|previous|md5|sha1|sha256|bcrypt|\d{1,3})$/

/**
 * Values that are none although their name is one: what a bank gave as its authorization of a payment (ISO 8583 field 38 has six
 * letters and digits), counts of tokens, tests that passed.
 */
const harmless: readonly (readonly [name: RegExp, value: RegExp])[] = [
  [/authorization(?:code)?$/, /^(?:\d{1,12}|[0-9A-Za-z]{6})$/],
  [/tokens$/, /^\d{1,9}$/],
  [/pass$/, /^\d{1,6}$/],
]

const namesRememberedMax = 2000
const nameCharsMax = 256
const endingSet = new Set(endings)
const endingCharsMax = Math.max(...endings.map(({ length }) => length))
const endingCharsMin = Math.min(...endings.map(({ length }) => length))
const lastWords = new Set(words)
const whole = new Set(wholes)
/** What stands in place of a name that was hidden. */
const marker = /^\[redacted(?:: [a-z -]{1,32})?\]$/
const lastWord = /([A-Z]?[a-z]+|[A-Z]+)[^A-Za-z]*$/

/**
 * Makes the function that judges values by their names, which are compared without case and separators. `more` are names that
 * are hidden beside the built-in ones, each as a whole.
 */
export function createHidesValue(more: readonly string[]): HidesValue {
  const added = new Set(more.flatMap((name) => [plainName(name), withoutX(plainName(name))]))
  const verdicts = new Map<string, boolean>()
  const judge = (name: string): boolean => {
    const known = verdicts.get(name)
    if (known !== undefined) return known
    const plain = plainName(name)
    const verdict =
      !marker.test(name) && (added.has(plain) || added.has(withoutX(plain)) || isSecretName(name))
    if (verdicts.size < namesRememberedMax && name.length <= nameCharsMax) verdicts.set(name, verdict)
    return verdict
  }
  return (name, value) => {
    if (!judge(name)) return false
    return value === undefined || value === '' ? value === undefined : !isHarmless(name, value, added)
  }
}

/** Whether a name speaks of a secret, by the built-in list alone. */
export function isSecretName(name: string): boolean {
  const plain = plainName(name)
  if (whole.has(plain) || hasEnding(plain) || lastWords.has(lastWordOf(name))) return true
  const bare = plain.replace(qualifier, '')
  return bare !== plain && hasEnding(bare)
}

function hasEnding(plain: string): boolean {
  for (let chars = endingCharsMin; chars <= Math.min(endingCharsMax, plain.length); chars += 1)
    if (endingSet.has(plain.slice(-chars))) return true
  return false
}

function isHarmless(name: string, value: string, added: ReadonlySet<string>): boolean {
  const plain = plainName(name)
  return !added.has(plain) && harmless.some(([names, values]) => names.test(plain) && values.test(value))
}

/** Names that speak of a credential or a signature in whatever system stands before us. */
const credentialHeader =
  /authorization|cookie|token|secret|passw|-?key$|credential|signature|hmac|session|assertion|client-cert|jwt|bearer|(^|-)auth(-|$)|-sig$|^sig/

/** Whether a header of this lowercase name carries a credential or a signature. */
export function isCredentialHeader(name: string): boolean {
  return credentialHeader.test(name)
}

/** A name without case and without all that is no letter and no digit; one that has nothing else stays itself. */
function plainName(name: string): string {
  const composed = isAscii(name) ? name : name.normalize('NFKC')
  const plain = composed.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, '')
  return plain === '' ? name : plain
}

function isAscii(text: string): boolean {
  return /^[\x20-\x7e]*$/.test(text)
}

function withoutX(plain: string): string {
  return plain.length > 1 && plain.startsWith('x') ? plain.slice(1) : plain
}

/** In small letters, without the digits behind it. */
function lastWordOf(name: string): string {
  return lastWord.exec(name)?.[1]?.toLowerCase() ?? ''
}
