/** The channel on which whoever wrote tenants says so, for the directories of all processes. The message means nothing. */
export const directoryChannel = 'latchkey:tenants'
