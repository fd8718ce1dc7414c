export { type DueNews, decodeDue, dueChannel, encodeDue } from './due-channel.ts'
export { type RequeueCandidate, requeueFailed } from './requeue.ts'
