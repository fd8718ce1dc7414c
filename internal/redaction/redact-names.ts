/** Decides whether the value under a name is redacted. `value` is the text of a scalar value. Never throws. */
export type HidesValue = (name: string, value?: string) => boolean

/** Secret names. A longer name that ends in one of them is secret as well. */
const endings = wordsOf(`
  password passwd passphrase passcode pwdhash secret secrets passwords token tokens authorization
  authorizationcode credential credentials cookie cookies apikey apikeys secretkey privatekey accesskey
  signingkey encryptionkey sharedkey masterkey sessionkey authkey hmackey subscriptionkey accountkey
  functionskey keyring cardnumber creditcard ccnumber ccnum cardno primaryaccountnumber bankaccountnumber
  iban securitycode cardverificationvalue cvc cvv cvc2 cvv2 pinblock userpin cardpin trackdata magstripe
  socialsecuritynumber passportnumber driverslicense driverslicensenumber nationalid connectionstring
  seedphrase mnemonic recoverycode recoverycodes backupcodes onetimecode verificationcode mfacode otpcode
  clientassertion samlresponse samlassertion sessid
`)

/** Secret names. A longer name whose last word is one of them is secret as well. */
const words = wordsOf('pan pin ssn otp totp jwt pwd pass csc csrf xsrf bearer salt')

/** Secret names that match only as the whole name, not as a part of a longer name. */
const wholes = ['auth', 'xauth', 'basicauth', 'proxyauth', 'dsn', 'track1', 'track2', 'userpass', 'sid2fa']

/** Suffixes of secret names: `passwordHash`, `new_password_2`, `secret.value`. */
const qualifier =
  /(?:value|hash|hashed|digest|header|text|string|plain|plaintext|clear|raw|base64|b64|encoded|encrypted|confirmation|confirm|repeat|again|old|new|current|previous|md5|sha1|sha256|bcrypt|\d{1,3})$/

/** Harmless values under secret names: authorization codes (ISO 8583 field 38), token counts, numbers of passed tests. */
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
/** A redaction mark is no secret name, although a mark such as `[redacted: token]` ends like one. */
const marker = /^\[redacted(?:: [a-z -]{1,32})?\]$/
const lastWord = /([A-Z]?[a-z]+|[A-Z]+)[^A-Za-z]*$/

/** Names are compared without case and separators. `more` lists additional secret names, which match only as a whole. */
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

/** Returns whether a name is secret by the built-in list. */
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

const credentialHeader =
  /authorization|cookie|token|secret|passw|-?key$|credential|signature|hmac|session|assertion|client-cert|jwt|bearer|(^|-)auth(-|$)|-sig$|^sig/

/** Returns whether a header with this lowercase name contains a credential or a signature. */
export function isCredentialHeader(name: string): boolean {
  return credentialHeader.test(name)
}

/** Keeps only lowercase letters and digits. A name without any stays unchanged. */
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

function lastWordOf(name: string): string {
  return lastWord.exec(name)?.[1]?.toLowerCase() ?? ''
}

function wordsOf(text: string): string[] {
  return text.trim().split(/\s+/)
}
