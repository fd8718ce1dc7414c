export { type DueNews, decodeDue, dueChannel, encodeDue } from './due-channel.ts'
export { type RequeueCandidate, requeueFailed } from './requeue.ts'
export { prepareSigningKey, type SignedMessage, type SigningKey, signStandardWebhook } from './sign.ts'
