/* Stands in for Open MPI, with its names and handles: a rank hears what it says itself. */
#include <stdlib.h>
#include <string.h>

#define EXPORTED __attribute__((visibility("default")))

struct object {
  int first; /* of the ranks that are in it; or the bytes of a type */
  int size;
};
EXPORTED struct object ompi_mpi_comm_world = {0, 2};
EXPORTED struct object ompi_mpi_float = {4, 0}, ompi_mpi_double = {8, 0};
EXPORTED struct object ompi_mpi_op_sum, ompi_mpi_op_max;
static struct object groups[64];
static int groups_made;

EXPORTED int MPI_Init(int* count, char*** words) {
  (void)count, (void)words;
  return 0;
}
EXPORTED int MPI_Finalize(void) { return 0; }
/* One of the ranks from `first` on. */
EXPORTED int stand_in_mpi_comm(int first, int size, struct object** made) {
  *made = malloc(sizeof **made);
  **made = (struct object){first, size};
  return 0;
}
EXPORTED int MPI_Comm_free(struct object** comm) {
  free(*comm);
  *comm = NULL;
  return 0;
}
EXPORTED int PMPI_Comm_size(const struct object* comm, int* size) {
  *size = comm->size;
  return 0;
}
EXPORTED int PMPI_Type_size(const struct object* type, int* size) {
  *size = type->first;
  return 0;
}
EXPORTED int PMPI_Comm_group(const struct object* comm, struct object** group) {
  *group = &groups[groups_made++ % 64];
  **group = *comm;
  return 0;
}
EXPORTED int PMPI_Group_free(struct object** group) {
  *group = NULL;
  return 0;
}
EXPORTED int PMPI_Group_translate_ranks(const struct object* from, int count, const int* ranks,
                                        const struct object* to, int* translated) {
  for (int i = 0; i < count; ++i) translated[i] = ranks[i] + from->first - to->first;
  return 0;
}

static int hear(const void* sent, void* received, int count, const struct object* type) {
  if (sent != (void*)1) memcpy(received, sent, (size_t)count * (size_t)type->first);
  return 0;
}
EXPORTED int MPI_Barrier(struct object* comm) { return comm->size > 0 ? 0 : 5; }
EXPORTED int MPI_Allreduce(const void* sent, void* received, int count, struct object* type,
                           struct object* op, struct object* comm) {
  (void)op;
  MPI_Barrier(comm); /* a call of its own, which the program did not make */
  return hear(sent, received, count, type);
}
EXPORTED int MPI_Reduce(const void* sent, void* received, int count, struct object* type,
                        struct object* op, int root, struct object* comm) {
  (void)root, (void)op, (void)comm;
  return hear(sent, received, count, type);
}
EXPORTED int MPI_Bcast(void* values, int count, struct object* type, int root,
                       struct object* comm) {
  (void)values, (void)count, (void)type, (void)root, (void)comm;
  return 0;
}
EXPORTED int MPI_Allgather(const void* sent, int count, struct object* type, void* received,
                           int received_count, struct object* received_type, struct object* comm) {
  (void)received_count, (void)received_type, (void)comm;
  return hear(sent, received, count, type);
}

/* What was started has ended when it is asked for the second time, or waited for. */
struct request {
  int asked;
};
static struct request** start(struct request** made) {
  *made = calloc(1, sizeof **made);
  return made;
}
static void finish(struct request** request) {
  free(*request);
  *request = NULL;
}
EXPORTED int MPI_Iallreduce(const void* sent, void* received, int count, struct object* type,
                            struct object* op, struct object* comm, struct request** made) {
  return start(made) ? MPI_Allreduce(sent, received, count, type, op, comm) : 1;
}
EXPORTED int MPI_Ireduce(const void* sent, void* received, int count, struct object* type,
                         struct object* op, int root, struct object* comm, struct request** made) {
  return start(made) ? MPI_Reduce(sent, received, count, type, op, root, comm) : 1;
}
EXPORTED int MPI_Ibcast(void* values, int count, struct object* type, int root, struct object* comm,
                        struct request** made) {
  return start(made) ? MPI_Bcast(values, count, type, root, comm) : 1;
}
EXPORTED int MPI_Iallgather(const void* sent, int count, struct object* type, void* received,
                            int received_count, struct object* received_type, struct object* comm,
                            struct request** made) {
  if (start(made) == NULL) return 1;
  return MPI_Allgather(sent, count, type, received, received_count, received_type, comm);
}
EXPORTED int MPI_Ibarrier(struct object* comm, struct request** made) {
  return start(made) ? MPI_Barrier(comm) : 1;
}
EXPORTED int MPI_Wait(struct request** request, void* status) {
  (void)status;
  finish(request);
  return 0;
}
EXPORTED int MPI_Waitall(int count, struct request** list, void* statuses) {
  (void)statuses;
  for (int i = 0; i < count; ++i) finish(&list[i]);
  return 0;
}
EXPORTED int MPI_Waitany(int count, struct request** list, int* index, void* status) {
  (void)status;
  *index = count - 1;
  finish(&list[*index]);
  return 0;
}
EXPORTED int MPI_Test(struct request** request, int* flag, void* status) {
  (void)status;
  *flag = (*request)->asked++ > 0;
  if (*flag) finish(request);
  return 0;
}
