// Loaded before everything else (`node --require`): until the service handles these signals, they do nothing. Otherwise SIGUSR2
// would end the process, and SIGUSR1 would open Node's inspector.
for (const signal of ["SIGUSR1", "SIGUSR2"]) process.on(signal, () => {});
