export { createRedactor, type Redactor, shownCharsMax } from './redact.ts'
export { isCredentialHeader, isSecretName } from './redact-names.ts'
export { hiddenMark } from './redact-shapes.ts'
